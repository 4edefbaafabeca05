//! `wgoose completions`: completions of shells, made of the program's own help.

use crate::failure::Failure;
use clap::Command;
use clap_complete::Shell;

/// Print shell completions.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose completions bash > ~/.local/share/bash-completion/completions/wgoose
  wgoose completions zsh > ~/.zfunc/_wgoose
  wgoose completions fish > ~/.config/fish/completions/wgoose.fish")]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args, program: &Command) -> Result<(), Failure> {
    let shown = program.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let mut program = Command::new("wgoose").args(program.get_arguments().cloned()).subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "wgoose", &mut script);
    Ok(std::io::Write::write_all(&mut std::io::stdout(), &script)?)
}
