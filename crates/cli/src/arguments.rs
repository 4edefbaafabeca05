//! Arguments as people write them: numbers below zero are values, and what is wrong with them is said.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, FromArgMatches};

/// The program's arguments, as `command` has them; one that is wrong ends it with exit code 2.
pub(crate) fn parse<P: FromArgMatches>(command: Command) -> P {
    let mut command = takes_negative_numbers(command);
    let parsed = command
        .try_get_matches_from_mut(std::env::args_os())
        .and_then(|mut matches| P::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command)));
    parsed.unwrap_or_else(|error| explained(error).exit())
}

/// Without it `--seed -1` is said to be an unknown option `-1`.
fn takes_negative_numbers(command: Command) -> Command {
    let option = |arg: clap::Arg| match arg.get_action().takes_values() && !arg.is_positional() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    };
    command.mut_args(option).mut_subcommands(takes_negative_numbers)
}

/// Says of a number below zero where none may be that it is below zero, not that a digit is wrong.
fn explained(error: clap::Error) -> clap::Error {
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (Some(value), Some(option)) = (named(ContextKind::InvalidValue), named(ContextKind::InvalidArg)) else {
        return error;
    };
    let is_negative = value.strip_prefix('-').is_some_and(|rest| rest.parse::<u64>().is_ok());
    // Ranges and our own parsers say more than this.
    let says_nothing = std::error::Error::source(&error).is_some_and(|why| why.is::<std::num::ParseIntError>());
    if error.kind() != ErrorKind::ValueValidation || !is_negative || !says_nothing {
        return error;
    }
    let text = format!("{option}: {value} is below zero, expected a whole number from 0 upwards");
    clap::Error::raw(ErrorKind::ValueValidation, format!("{text}\n\nFor more information, try '--help'.\n"))
}
