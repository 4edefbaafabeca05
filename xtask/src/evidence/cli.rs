//! `docs/cli.md`: the help of every verb, as the tool prints it.

use crate::shell::{Result, capture, command};
use std::path::Path;

const HEAD: &str = "# Command line\n\nFor you who look up an option. `cargo xtask evidence --write` generates this \
    page from the tool's help.\n\n\
    Exit code 0: done. 1: failed; one line on stderr says what and where. 2: wrong usage. 130 and 143: interrupted by Ctrl-C or\n\
    SIGTERM; nothing half written is left.\n\n\
    | variable | effect |\n|---|---|\n\
    | `RUST_LOG` | which messages go to stderr; default `warn` |\n\
    | `WGPU_VALIDATION=1` | the validation layers of the graphics API, where they are installed |\n\
    | `WGOOSE_CACHE_DIR` | cache of compiled kernels, instead of the user's cache folder |\n\
    | `WGOOSE_DATA_DIR` | folder of filed plans and the chat history, instead of the user's data folder |\n\
    | `WGOOSE_LIMITS` | `webgpu` or `low`: as `--limits`, for every command and library call that names no limits |\n\
    | `CARGO_TARGET_DIR` | where `cargo xtask` builds and puts its results, instead of `target` |\n";

/// The page.
///
/// # Errors
/// The tool cannot be run.
pub(super) fn page(tool: &Path) -> Result<String> {
    let mut page = HEAD.to_owned();
    add(&mut page, tool, &[])?;
    Ok(page.lines().map(|line| line.trim_end().to_owned() + "\n").collect())
}

/// Adds the help of a verb, then that of the verbs in it.
fn add(page: &mut String, tool: &Path, words: &[&str]) -> Result<()> {
    let arguments = words.iter().chain(&["--help"]);
    let help = capture(command(tool, arguments).env("COLUMNS", "100"))?;
    let name = ["wgoose"].iter().chain(words).copied().collect::<Vec<_>>().join(" ");
    *page += &format!("\n## {name}\n\n```text\n{}\n```\n", help.trim_end());
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Text that is longer than a line continues further to the right.
    let listed = listed.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    for verb in listed.filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help") {
        add(page, tool, &[words, &[verb]].concat())?;
    }
    Ok(())
}
