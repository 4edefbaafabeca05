//! Tells the program which commit it is built of, for `wgoose --version`.

use std::path::Path;
use std::process::Command;

fn main() {
    // A checkout has a file or a folder `.git`; a source package has neither.
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=10", "HEAD"]).unwrap_or_default();
    println!("cargo::rustc-env=WGOOSE_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    // What a commit moves.
    let moved = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|path| Path::new(path).exists());
    if let Some(path) = moved {
        println!("cargo::rerun-if-changed={path}");
    }
}
