"""sendonce completion: a script for a shell that completes commands and options, made from the table of verbs."""

from sendonce.cli.output import Verbatim
from sendonce.cli.verbs import argument, verb

_BASH = """\
# Completes sendonce in bash: eval "$(sendonce completion bash)"
_sendonce() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} command="" word skip="" words
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        if [[ $skip ]]; then skip=""; continue; fi
        case $word in
            --database) skip=1 ;;
            -*) ;;
            *) [[ $command == *" "* ]] || command="${{command:+$command }}$word" ;;
        esac
    done
    case $command in
{cases}
        *) words="" ;;
    esac
    if [[ -z $words && $command == *" "* ]]; then
        case ${{command%% *}} in
{singles}
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}}
complete -o default -F _sendonce sendonce"""
_ZSH = """\
#compdef sendonce
# Completes sendonce in zsh: eval "$(sendonce completion zsh)"
autoload -Uz bashcompinit && bashcompinit
{bash}"""
_SHELLS = ("bash", "zsh", "fish")


@verb(
    "completion",
    "print a script that completes commands and options in your shell",
    argument("shell", choices=_SHELLS, help="bash, zsh or fish"),
    about='Print a script for your shell. For bash: eval "$(sendonce completion bash)"; for zsh the same; for fish:'
    " sendonce completion fish | source.",
)
def completion(shell: str) -> str:
    words = words_after()
    if shell == "fish":
        return _fish(words)
    bash = _bash(words)
    return bash if shell == "bash" else _ZSH.format(bash=bash)


completion.text(lambda script: (Verbatim(script),))
completion.json(lambda script: {"script": script})


def words_after() -> dict[str, list[str]]:
    """Return what may come after each command: "" has the commands, "events" its verbs, "events list" its options."""
    import argparse

    from sendonce.cli.parser import build

    found: dict[str, list[str]] = {}

    def walk(parser: argparse.ArgumentParser, command: str) -> None:
        actions = [each for each in parser._actions if each.help is not argparse.SUPPRESS]
        found[command] = [option for each in actions for option in each.option_strings if option != "-h"]
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                found[command] = [*action.choices, *found[command]]
                for name, inner in action.choices.items():
                    walk(inner, f"{command} {name}".strip())
            elif action.choices and not action.option_strings:
                found[command] = [*map(str, action.choices), *found[command]]

    walk(build(everything=True), "")
    return found


def _bash(words: dict[str, list[str]]) -> str:
    nouns = {command.partition(" ")[0] for command in words if " " in command}
    cases = "\n".join(f'        "{command}") words="{" ".join(each)}" ;;' for command, each in words.items())
    # Of a command without verbs the second word is an argument of its own.
    singles = "\n".join(
        f'            {command}) words="{" ".join(each)}" ;;'
        for command, each in words.items()
        if command and " " not in command and command not in nouns
    )
    return _BASH.format(cases=cases, singles=singles)


def _fish(words: dict[str, list[str]]) -> str:
    lines = ["# Completes sendonce in fish: sendonce completion fish | source", "complete -c sendonce -e"]
    nouns = " ".join(each for each in words[""] if not each.startswith("-"))
    lines.append(f"complete -c sendonce -f -n 'not __fish_seen_subcommand_from {nouns}' -a '{nouns}'")
    for command, each in words.items():
        if not command:
            continue
        noun, _, verb = command.partition(" ")
        condition = f"__fish_seen_subcommand_from {noun}" + (
            f"; and __fish_seen_subcommand_from {verb}" if verb else ""
        )
        inner = " ".join(word for word in each if not word.startswith("-"))
        if inner:
            lines.append(
                f"complete -c sendonce -f -n '{condition}; and not __fish_seen_subcommand_from {inner}' -a '{inner}'"
            )
        lines += [f"complete -c sendonce -n '{condition}' -l {word[2:]}" for word in each if word.startswith("--")]
    return "\n".join(lines)
