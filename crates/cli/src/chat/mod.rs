//! What `wgoose chat` is made of: commands and interruptions.

mod command;
mod interrupt;

pub(crate) use command::{COMMANDS, Command};
pub(crate) use interrupt::Interrupt;
