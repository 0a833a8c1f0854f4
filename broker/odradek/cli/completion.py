"""`odradek completion`: the script that teaches a shell the verbs and options."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Examples:
      eval "$(odradek completion bash)"
      odradek completion zsh > ~/.zfunc/_odradek
      odradek completion fish > ~/.config/fish/completions/odradek.fish
    """
    from click.shell_completion import get_completion_class

    from odradek.cli.main import command_line

    kind = get_completion_class(shell)
    assert kind is not None, shell
    # Not `source()`: for bash it starts a shell to ask its version, which a script for another machine does not need.
    variables = kind(command_line, {}, "odradek", "_ODRADEK_COMPLETE").source_vars()
    click.echo(kind.source_template % variables)
