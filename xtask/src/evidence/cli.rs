//! `docs/cli.md`: the help of every verb, as the tool prints it.

use crate::shell::{Result, capture, command};
use std::path::Path;

const HEAD: &str = "# Command line\n\nFor you who look up an option. `cargo xtask evidence --write` makes this page of the tool's help.\n\n\
    Exit code 0: done. 1: failed; one line on stderr says what and where. 2: wrong usage. 130 and 143: interrupted by Ctrl-C or\n\
    SIGTERM; nothing half written is left.\n\n\
    | variable | effect |\n|---|---|\n\
    | `RUST_LOG` | which messages go to stderr; default `warn` |\n\
    | `WGPU_VALIDATION=1` | the validation layers of the graphics API, where they are installed |\n\
    | `WGOOSE_CACHE_DIR` | where compiled kernels are kept, instead of the user's cache folder |\n\
    | `WGOOSE_DATA_DIR` | where plans are filed, instead of the user's data folder |\n\
    | `WGOOSE_LIMITS` | `webgpu` or `low`: as `--limits`, for every command and library call that names no limits |\n\
    | `CARGO_TARGET_DIR` | where `cargo xtask` builds and puts its results, instead of `target` |\n";

/// The page.
///
/// # Errors
/// The tool cannot be run.
pub(super) fn page(tool: &Path) -> Result<String> {
    let help = |words: &[&str]| capture(command(tool, words).env("COLUMNS", "100"));
    let all = help(&["--help"])?;
    let verbs = all.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // The text of a verb that is longer than a line continues further to the right.
    let verbs = verbs.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let verbs = verbs.filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help");
    let mut page = format!("{HEAD}\n## wgoose\n\n```text\n{}\n```\n", all.trim_end());
    for verb in verbs {
        page += &format!("\n## wgoose {verb}\n\n```text\n{}\n```\n", help(&[verb, "--help"])?.trim_end());
    }
    Ok(page.lines().map(|line| line.trim_end().to_owned() + "\n").collect())
}
