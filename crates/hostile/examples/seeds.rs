//! Writes valid inputs into one folder for each format: `cargo run -p wgoose-hostile --example seeds fuzz/corpus`.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("which folder?")?);
    for (number, (format, bytes)) in wgoose_hostile::seeds()?.into_iter().enumerate() {
        fs::create_dir_all(folder.join(format))?;
        fs::write(folder.join(format).join(format!("valid-{number}")), bytes)?;
    }
    Ok(())
}
