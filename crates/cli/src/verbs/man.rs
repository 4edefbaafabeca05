//! `wgoose man`: pages for `man`, made of the program's own help.

use crate::failure::{Failure, WrongUsage};
use crate::out;
use clap::Command;
use clap_mangen::Man;
use std::path::PathBuf;

/// Print the manual page of the program or of a verb, or write all pages to a folder.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose man | man -l -
  wgoose man generate | man -l -
  wgoose man --out ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// The verb, such as tune or dev kernel. Default: the program.
    #[arg(value_name = "VERB")]
    verbs: Vec<String>,
    /// Write all pages to this folder, which is created if it is missing.
    #[arg(long, value_name = "DIR", conflicts_with = "verbs")]
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
        let mut commands = vec![&program];
        while let Some(command) = commands.pop() {
            let (name, page) = page(command)?;
            out::file(&folder.join(format!("{name}.1")), &page)?;
            commands.extend(command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help"));
        }
        return Ok(());
    }
    let mut command = &program;
    for verb in &args.verbs {
        let unknown = || WrongUsage(format!("there is no verb '{verb}': wgoose --help lists them"));
        command = command.find_subcommand(verb).ok_or_else(unknown)?;
    }
    Ok(std::io::Write::write_all(&mut std::io::stdout(), &page(command)?.1)?)
}
