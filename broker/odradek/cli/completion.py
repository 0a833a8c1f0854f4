"""`odradek completion`: the script that teaches a shell the verbs, the options, and the names in the cluster.

The scripts are click's, each with a change. Bash breaks words at colons and equals signs, so `localhost:9092` would be
three words. The line therefore goes to `odradek` unchanged, and the script removes from each answer the part that bash
already has. Names are quoted for the shell, since a group's name may hold anything. fish keeps commas in names, and zsh
writes no blank after an equals sign.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from odradek.cli.shared.environment import COMPLETION_VARIABLE

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' type value line
    COMPREPLY=()
    while IFS= read -r line; do
        type=${line%%%%,*}
        value=${line#*,}
        if [[ $type == 'dir' ]]; then
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            [[ $value == *= ]] && compopt -o nospace
            printf -v value '%%q' "$value"
            COMPREPLY+=("${value//\\\\,/,}")
        fi
    done < <(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
%(complete_var)s=bash_complete "$1")
    return 0
}

%(complete_func)s_setup() {
    complete -o nosort -F %(complete_func)s %(prog_name)s
}

%(complete_func)s_setup;
"""


class _Bash(BashComplete):
    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one that it stands in."""
        # The letter distinguishes an unfinished word from a blank after the previous word.
        words = split_arg_string(os.environ.get("COMP_LINE", "") + "x")
        return words[1:-1], words[-1][:-1] if len(words) > 1 else ""

    def complete(self) -> str:
        """The lines for the script, without the part that bash takes for separate words."""
        args, incomplete = self.get_completion_args()
        breaks = [c for c in ":=" if c in os.environ.get("COMP_WORDBREAKS", ":=")]
        cut = max((incomplete.rfind(character) + 1 for character in breaks), default=0)
        lines: list[str] = []
        for item in self.get_completions(args, incomplete):
            shown = CompletionItem(item.value[cut:], type=item.type) if item.type == "plain" else item
            lines.append(self.format_completion(shown))
        return "\n".join(lines)


class _Zsh(ZshComplete):
    # No blank after `retention.ms=`: the value follows.
    source_template = ZshComplete.source_template.replace(
        "compadd -U -V unsorted -a completions",
        """compadd -U -V unsorted -- ${completions:#*=}
        compadd -U -V unsorted -S '' -- ${(M)completions:#*=}
        (( $#completions ))""",
    )


class _Fish(FishComplete):
    source_template = FishComplete.source_template.replace(
        'string split "," $completion', 'string split --max 1 "," $completion'
    )


def register() -> None:
    """Let click use the shells of this module."""
    add_completion_class(_Bash)
    add_completion_class(_Fish)
    add_completion_class(_Zsh)


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    The tab key then completes verbs, options, and names: topics with their partitions, groups, brokers, keys of
    settings, profiles. Names come from the cluster that the command line names (--bootstrap, --profile, or the
    environment). A cluster that does not answer within a second gives no names.

    \b
    Examples:
      eval "$(odradek completion bash)"
      odradek completion bash > ~/.local/share/bash-completion/completions/odradek
      odradek completion zsh > ~/.zfunc/_odradek
      odradek completion fish > ~/.config/fish/completions/odradek.fish
    """
    register()
    kind = get_completion_class(shell)
    assert kind is not None, shell
    # Not `source()`: for bash it starts a shell to ask its version, which a script for another machine does not need.
    variables = kind(ctx.find_root().command, {}, "odradek", COMPLETION_VARIABLE).source_vars()
    click.echo(kind.source_template % variables)
