//! `wgoose help`: what a word means, or the help of a verb.

use crate::failure::{Failure, WrongUsage};
use clap::Command;

/// Explain a word of this program, or print the help of a verb.
///
/// Words: plans, kernels, precision, memory.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A word or a verb: plans, kernels, precision, memory, tune, dev kernel ...
    #[arg(value_name = "WORD")]
    words: Vec<String>,
}

/// The words that are explained.
const TOPICS: [(&str, &str); 4] = [
    ("plans", include_str!("plans.txt")),
    ("kernels", include_str!("kernels.txt")),
    ("precision", include_str!("precision.txt")),
    ("memory", include_str!("memory.txt")),
];

pub(crate) fn run(args: &Args, mut program: Command) -> Result<(), Failure> {
    program.build();
    if let [word] = &args.words[..]
        && let Some((_, text)) = TOPICS.iter().find(|(topic, _)| *topic == word.to_lowercase())
    {
        outln!("{}", text.trim_end());
        return Ok(());
    }
    let mut command = &mut program;
    for word in &args.words {
        let unknown = || WrongUsage(format!("there is no verb or word '{word}': wgoose --help lists the verbs"));
        command = command.find_subcommand_mut(word).ok_or_else(unknown)?;
    }
    outln!("{}", command.render_long_help().to_string().trim_end());
    Ok(())
}
