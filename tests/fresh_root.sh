#!/usr/bin/env bash
# The README's two commands as a newcomer meets them: `make run` and `make test` of this checkout's last commit in a bare
# Debian 12, without a C compiler, Java, curl, npm or Chromium, and with a host name that does not resolve.
# Needs root and debootstrap. SUITE=trixie or SUITE=forky takes a newer Debian and its Python (3.13, 3.14);
# EXTRA="gcc libc6-dev python3-dev default-jre-headless" adds packages; LOGS=DIR keeps what the two printed; MIRROR is
# where the packages come from.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" -eq 0 ] || { echo "fresh root: only root can make one" >&2; exit 3; }
command -v debootstrap >/dev/null || { echo "fresh root: debootstrap is not installed" >&2; exit 3; }

root=$(mktemp -d)
mirror=${MIRROR:-$(apt-cache policy debootstrap | grep -oE 'https?://[^ ]+' | head -1)}

clean() {
    for name in proc dev sys; do umount "$root/$name" 2>/dev/null || true; done
    # Never through a mount that stayed: below it lies this machine's own /dev.
    if grep -q " $root/" /proc/mounts; then echo "fresh root: $root is still in use and stays" >&2; return; fi
    rm -rf --one-file-system "$root"
}
trap clean EXIT

suite=${SUITE:-bookworm}
# A Debian that is newer than this debootstrap is made the way of all later ones.
script=/usr/share/debootstrap/scripts/$suite
[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
packages=python3,python3-venv,make,ca-certificates${EXTRA:+,${EXTRA// /,}}
debootstrap --no-check-gpg --variant=minbase --include="$packages" "$suite" "$root" "$mirror" "$script" >"$root.log" 2>&1 ||
    { tail -5 "$root.log" >&2; exit 3; }
rm -f "$root.log"
mkdir -p "$root/home/newcomer"
git clone --quiet "$PWD" "$root/home/newcomer/warren"
# How pip reaches its index from here.
for file in /etc/pip.conf "$HOME/.config/pip/pip.conf"; do
    [ ! -f "$file" ] || { mkdir -p "$root$(dirname "$file")" && cp "$file" "$root$file"; }
done
cp /etc/resolv.conf "$root/etc/"
cp -rL /etc/ssl/certs "$root/etc/ssl/" 2>/dev/null || true
echo "127.0.0.1 localhost" >"$root/etc/hosts"
for name in proc dev sys; do mount --bind "/$name" "$root/$name"; done

cat >"$root/home/newcomer/both.sh" <<'BOTH'
cd /home/newcomer/warren
seconds_since() { echo $(($(date +%s) - $1)); }

begun=$(date +%s) ready= rows=
setsid make run >../run.log 2>&1 &
run=$!
while [ -z "$rows" ] && [ "$(seconds_since "$begun")" -lt 600 ] && kill -0 $run 2>/dev/null; do
    sleep 1
    [ -n "$ready" ] || ! grep -q '^warren ready' ../run.log || ready=$(seconds_since "$begun")
    ! grep -qE '^pipeline running: [1-9]' ../run.log || rows=$(seconds_since "$begun")
done
kill -INT -- -$run 2>/dev/null
wait $run
ended=$?

begun=$(date +%s)
make test >../test.log 2>&1
tested=$?
echo "fresh root: make run: ready after ${ready:-never} s, rows after ${rows:-never} s, exit code $ended"
echo "fresh root: make test: exit code $tested after $(seconds_since "$begun") s;" $(grep -hE '^=* ?[0-9]+ (failed|passed).* in ' ../test.log)
[ -n "$ready" ] && [ "$ready" -le 60 ] && [ -n "$rows" ] && [ "$tested" = 0 ]
BOTH

status=0
# The user's own environment, but for pip's way to its index, must not help.
mapfile -t forwarded < <(env | grep -E '^(PIP_|SSL_|REQUESTS_CA|CURL_CA|https?_proxy|no_proxy)' || true)
chroot "$root" env -i HOME=/root PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 "${forwarded[@]}" \
    bash /home/newcomer/both.sh || status=$?
[ -z "${LOGS:-}" ] || cp "$root"/home/newcomer/*.log "$LOGS"/
[ "$status" -eq 0 ] || tail -40 "$root/home/newcomer/test.log" >&2
exit "$status"
