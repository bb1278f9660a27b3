//! `plimsoll completions` and `plimsoll man`: what shells and `man` show of all programs,
//! generated from their command lines.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::Generator;
use clap_complete::shells::{Bash, Fish, Zsh};
use clap_mangen::Man;
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::stdout::print;

/// Print shell completions
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll completions bash > /etc/bash_completion.d/plimsoll
  plimsoll completions zsh > /usr/local/share/zsh/site-functions/_plimsoll
  plimsoll completions fish > ~/.config/fish/completions/plimsoll.fish
  plimsoll completions bash plimsoll-node > /etc/bash_completion.d/plimsoll-node")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
    /// The program
    #[arg(value_enum, default_value_t = Program::Plimsoll)]
    program: Program,
}

/// Print the manual page, or write those of all programs and subcommands
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll man | man -l -
  plimsoll man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Directory for the pages of plimsoll and of the programs of a mesh
    dir: Option<PathBuf>,
}

/// A shell.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// A program of the mesh.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Program {
    #[value(name = "plimsoll")]
    Plimsoll,
    #[value(name = "plimsoll-node")]
    Node,
    #[value(name = "plimsoll-aggregator")]
    Aggregator,
    #[value(name = "plimsoll-profiler")]
    Profiler,
}

impl Program {
    /// Its command line; that of `plimsoll` is handed in.
    fn command(self, plimsoll: &Command) -> Command {
        match self {
            Self::Plimsoll => plimsoll.clone(),
            Self::Node => plimsoll_node::args::Args::command(),
            Self::Aggregator => plimsoll_aggregator::args::Args::command(),
            Self::Profiler => plimsoll_profiler::args::Args::command(),
        }
    }
}

/// Prints the completions of one program for one shell.
pub fn completions(args: &CompletionsArgs, plimsoll: &Command) -> Exit {
    let text = generated(args.shell, args.program.command(plimsoll));
    print(String::from_utf8_lossy(&text));
    Exit::Success
}

fn generated(shell: Shell, command: Command) -> Vec<u8> {
    match shell {
        Shell::Bash => written(Bash, command),
        Shell::Zsh => written(Zsh, command),
        Shell::Fish => written(Fish, command),
    }
}

fn written(shell: impl Generator, mut command: Command) -> Vec<u8> {
    let mut text = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut text);
    text
}

/// Prints the page of `plimsoll`, or writes all pages.
///
/// # Errors
/// When a page cannot be written.
pub fn man(args: &ManArgs, plimsoll: &Command) -> Result<Exit> {
    match &args.dir {
        Some(dir) => write_all(dir, plimsoll)?,
        None => print(String::from_utf8_lossy(&page(plimsoll.clone())?.1)),
    }
    Ok(Exit::Success)
}

fn write_all(dir: &Path, plimsoll: &Command) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for program in Program::value_variants() {
        let mut command = program.command(plimsoll).disable_help_subcommand(true);
        // Gives subcommands the names of their pages.
        command.build();
        for command in command.get_subcommands().cloned().chain([command.clone()]) {
            let (name, text) = page(command)?;
            let path = dir.join(name);
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// The file name and the text of a command's page. Examples keep their lines, so that they can be
/// copied.
fn page(command: Command) -> Result<(String, Vec<u8>)> {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command.after_help(None::<&'static str>));
    let mut text = Vec::new();
    man.render(&mut text)?;
    if !examples.is_empty() {
        let examples = examples.strip_prefix("Examples:\n").unwrap_or(&examples);
        writeln!(text, ".SH EXAMPLES\n.nf\n{}\n.fi", unfilled(examples))?;
    }
    Ok((man.get_filename(), text))
}

/// Lines without a meaning to roff.
fn unfilled(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    let lines = escaped
        .lines()
        .map(|line| if line.starts_with('.') { format!("\\&{line}") } else { line.to_owned() });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::process::{Command as Process, Stdio};

    use super::*;
    use crate::args::Cli;

    /// The output of a program, and its errors if any; `None` with the reason printed where it is
    /// not installed.
    fn output(program: &str, arguments: &[&str]) -> Option<(String, String)> {
        let mut run = Process::new(program);
        let run = run.args(arguments).env("MANWIDTH", "100").stdin(Stdio::null()).output();
        match run {
            Ok(output) => {
                let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let code = if output.status.success() { "" } else { "failed: " };
                Some((of(&output.stdout), code.to_owned() + &of(&output.stderr)))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("SKIPPED: {program} is not installed");
                None
            }
            Err(error) => panic!("{program}: {error}"),
        }
    }

    fn file(dir: &Path, shell: Shell, program: Program) -> String {
        let path = dir.join(format!("{shell:?}-{program:?}"));
        let text = generated(shell, program.command(&Cli::command()));
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    #[test]
    fn bash_completes_subcommands_flags_and_values_of_each_program() {
        let dir = tempfile::tempdir().unwrap();
        for (program, words, expected) in [
            (Program::Plimsoll, "plimsoll to", "top"),
            (Program::Plimsoll, "plimsoll top --on", "--once"),
            (Program::Plimsoll, "plimsoll completions fi", "fish"),
            (Program::Node, "plimsoll-node --spo", "--spool"),
            (Program::Aggregator, "plimsoll-aggregator --ru", "--rules"),
            (Program::Profiler, "plimsoll-profiler ser", "serve"),
        ] {
            let path = file(dir.path(), Shell::Bash, program);
            let (first, last) =
                (words.split(' ').next().unwrap(), words.rsplit(' ').next().unwrap());
            // As bash does: the function that is registered for the program.
            let ask = format!(
                "source {path} && COMP_WORDS=({words}) && COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) \
                 && registered=$(complete -p {first}) && function=${{registered#*-F }} \
                 && \"${{function%% *}}\" {first} {last} '' && echo \"${{COMPREPLY[*]}}\""
            );
            let (answer, errors) =
                output("bash", &["-c", &ask]).expect("the scripts here need bash");
            assert_eq!((answer.trim(), errors.as_str()), (expected, ""), "{words}");
        }
    }

    #[test]
    fn zsh_and_fish_accept_their_files() {
        let dir = tempfile::tempdir().unwrap();
        for program in Program::value_variants() {
            for (shell, name) in [(Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
                let path = file(dir.path(), shell, *program);
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(text.contains(program.command(&Cli::command()).get_name()), "{name}");
                if let Some((_, errors)) = output(name, &["-n", &path]) {
                    assert_eq!(errors, "", "{name}");
                }
            }
        }
    }

    #[test]
    fn every_subcommand_has_a_page_that_man_renders_without_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        write_all(dir.path(), &Cli::command()).unwrap();
        let pages = [
            "plimsoll",
            "plimsoll-node",
            "plimsoll-aggregator",
            "plimsoll-profiler",
            "plimsoll-profiler-serve",
        ]
        .map(str::to_owned);
        let subcommands = Cli::command();
        let subcommands =
            subcommands.get_subcommands().map(|of| format!("plimsoll-{}", of.get_name()));
        for page in pages.into_iter().chain(subcommands) {
            let path = dir.path().join(format!("{page}.1")).display().to_string();
            let text =
                std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(text.contains(".TH"), "{page}");
            if let Some((shown, errors)) = output("man", &["--warnings", "-l", &path]) {
                assert_eq!(errors, "", "{page}");
                assert!(shown.contains("SYNOPSIS"), "{page}: {shown}");
                // An example is one line, as it is typed.
                let example = "plimsoll doctor --nats nats://broker:4222 --mesh lab";
                assert!(page != "plimsoll-doctor" || shown.contains(example), "{shown}");
            }
        }
    }
}
