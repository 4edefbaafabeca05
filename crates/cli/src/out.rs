//! Where results go: standard output without panics (a closed pipe is an error like others, which [`crate::failure`] lets
//! pass), and files whole or not at all.

use std::io::Write;
use std::path::Path;

/// `print!`, for functions that return [`crate::failure::Failure`].
macro_rules! out {
    ($($text:tt)*) => { std::io::Write::write_fmt(&mut std::io::stdout(), format_args!($($text)*))? };
}

/// `println!`, for functions that return [`crate::failure::Failure`].
macro_rules! outln {
    ($($text:tt)*) => { std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{}\n", format_args!($($text)*)))? };
}

/// [`outln!`] of text that files and drivers give: as [`wgoose_session::printable`] has it.
macro_rules! listln {
    ($($text:tt)*) => { outln!("{}", wgoose_session::printable(&format!($($text)*))) };
}

/// Writes a file, whole or not at all; an error names it.
pub(crate) fn file(path: &Path, contents: &[u8]) -> Result<(), String> {
    let named = |e: std::io::Error| format!("{}: {e}", path.display());
    wgoose_files::replace(path, |file| file.write_all(contents)).map(drop).map_err(named)
}
