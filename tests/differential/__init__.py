"""The differential suite: the same scripted AMQP sessions played to RabbitMQ and to Warren, and their answers compared.

client.py plays, recording.py writes down and evens out, sessions/ holds the scripts, differences.py the reviewed
differences. `python -m tests.differential --help` records one broker.
"""
