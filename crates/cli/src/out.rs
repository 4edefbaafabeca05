//! Standard output without panics: a closed pipe is an error like others, and `main` lets it pass.

/// `print!`, for functions that return [`crate::Failure`].
macro_rules! out {
    ($($text:tt)*) => { std::io::Write::write_fmt(&mut std::io::stdout(), format_args!($($text)*))? };
}

/// `println!`, for functions that return [`crate::Failure`].
macro_rules! outln {
    ($($text:tt)*) => { std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{}\n", format_args!($($text)*)))? };
}
