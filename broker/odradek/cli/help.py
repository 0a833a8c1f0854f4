"""`odradek help`: the help of a verb, and of the options that all verbs take."""

from __future__ import annotations

import click

from odradek.cli.shared.options import SharedOption

OPTIONS = "options"


@click.command("help")
@click.argument("words", nargs=-1, metavar="[VERB…|options]")
@click.pass_context
def show_help(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a verb, or the options of every verb.

    \b
    Examples:
      odradek help
      odradek help options
      odradek help topics create
    """
    root = ctx.find_root()
    if words == (OPTIONS,):
        click.echo(_describe_options(root))
        return
    above, command = root, root.command
    for word in words:
        if not isinstance(command, click.Group):
            raise click.UsageError(f"`odradek {above.command_path}` has no verbs below it", ctx)
        # Raises for an unknown verb, with the nearest one.
        _, found, _ = command.resolve_command(above, [word])
        assert found is not None
        command, above = found, click.Context(found, info_name=word, parent=above)
    click.echo(command.get_help(above))


def _describe_options(root: click.Context) -> str:
    formatter = root.make_formatter()
    formatter.write_text("The options of every verb; they may stand before or after it.")
    shared = [one for one in root.command.params if isinstance(one, SharedOption)]
    records = [record for one in shared if (record := one.get_help_record(root)) is not None]
    with formatter.section("Options"):
        formatter.write_dl(records)
    formatter.write_paragraph()
    formatter.write_text(
        "The first of these that is given names the cluster: --bootstrap, $ODRADEK_BOOTSTRAP, --command-config, a "
        "profile (--profile, $ODRADEK_PROFILE, or the one in use). The default is 127.0.0.1:9092. `odradek profile "
        "show` prints the settings in force and where each comes from."
    )
    return formatter.getvalue().rstrip("\n")
