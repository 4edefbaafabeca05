//! `wgoose man`: pages for `man`, made of the program's own help.

use crate::failure::{Failure, WrongUsage};
use crate::out;
use clap::Command;
use clap_mangen::Man;
use std::path::PathBuf;

/// Print the manual page of the program or of a verb, or write all of them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose man | man -l -
  wgoose man generate | man -l -
  wgoose man --out ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// The verb; without it, the program.
    verb: Option<String>,
    /// Write every page into this folder, which is made if it is missing.
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, mut program: Command) -> Result<(), Failure> {
    program.build();
    let page = |command: &Command| {
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        let mut page = Vec::new();
        Man::new(command.clone().name(name.clone())).render(&mut page).map(|()| (name, page))
    };
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let verbs = program.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help");
        for command in std::iter::once(&program).chain(verbs) {
            let (name, page) = page(command)?;
            out::file(&folder.join(format!("{name}.1")), &page)?;
        }
        return Ok(());
    }
    let command = match &args.verb {
        None => &program,
        Some(verb) => program
            .find_subcommand(verb)
            .ok_or_else(|| WrongUsage(format!("there is no verb '{verb}': wgoose --help lists them")))?,
    };
    Ok(std::io::Write::write_all(&mut std::io::stdout(), &page(command)?.1)?)
}
