"""Ends all that runs in a container but its main process, for the host.

The arguments are the uids of commands, runners and sweepers (see users.py); without them, what has
this process's own uid is ended. What commands have left in memory is removed too. Standard library
only.
"""

import sys

from sandbox.image.users import Users


def sweep(users: Users) -> None:
    """Kill every command and every other runner, and remove what they have left in memory."""
    users.kill_commands()
    users.kill_runners()
    users.clear_memory()


def main() -> None:
    users = Users(*map(int, sys.argv[1:]))
    users.kill_beginners()
    users.become_runner()
    sweep(users)
