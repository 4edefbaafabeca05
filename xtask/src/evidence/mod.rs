//! `cargo xtask evidence`: checks of pages. Tables of figures are generated from records, no other figure claims a
//! speed unless it names a source on the web, links lead somewhere, and pages keep to plain prose, as do heads of
//! modules. Pages that a program makes of records are made again, and must come out the same. Records must not make
//! the repository too large.

mod citation;
mod cli;
mod links;
mod number;
mod page;
mod picture;
mod prose;
mod tables;

use crate::shell::{Error, Result, capture};
use crate::weight;
use crate::wgoose::{Profile, Wgoose};
use std::fs;
use std::path::{Path, PathBuf};

/// Pages that people write: files, and folders with all that is in them.
const PAGES: [&str; 5] = ["README.md", "docs", "optimization_plan", "experiments", "plans"];

/// Pages whose links are followed beside these.
const LINKED: [&str; 13] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    "SECURITY.md",
    "assets/README.md",
    "crates/loader/README.md",
    "crates/python/README.md",
    "integrations/web-rwkv/README.md",
    "integrations/web-rwkv/reports/README.md",
    "kernels-wgsl/README.md",
    "oracle/README.md",
    "peers/README.md",
];

/// Pages whose prose is checked.
const PLAIN: [&str; 8] = [
    "README.md",
    "docs",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "integrations",
    "optimization_plan",
    "plans",
    "experiments/demo-model",
];

/// Code whose module heads are checked as pages are.
const CODE: [&str; 3] = ["crates", "integrations", "xtask/src"];

/// Files whose heads are still to be rewritten. The list only shrinks.
const HEADS_LEFT: [&str; 5] = [
    "crates/measure/src/ledger/identity.rs",
    "crates/measure/src/ledger/record.rs",
    "crates/runtime/src/gpu/persistent/building.rs",
    "crates/runtime/src/gpu/planned.rs",
    "crates/runtime/src/gpu/planner.rs",
];

/// The page that `wgoose bench` makes of the records beside it; a test of the command line makes it again.
const BENCHMARKS: &str = "optimization_plan/benchmarks.md";

/// The page that the tool's own help makes.
const CLI: &str = "docs/cli.md";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only pages that people write; nothing is built
    #[arg(long, conflicts_with = "tool")]
    written: bool,
    /// First fill the tables of all pages from the records, and write docs/cli.md
    #[arg(long)]
    write: bool,
    /// A tool that is already built
    #[arg(long, value_name = "FILE")]
    tool: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.write {
        fill(Path::new(""))?;
    }
    if args.write && !args.written {
        let page = cli::page(&absolute(&args.tool()?)?)?;
        fs::write(CLI, page).map_err(|e| Error::file("write", Path::new(CLI), e))?;
    }
    written(Path::new(""))?;
    weight::check()?;
    if args.written { Ok(()) } else { made(&args.tool()?) }
}

impl Args {
    /// The tool whose help is a page.
    fn tool(&self) -> Result<PathBuf> {
        match &self.tool {
            Some(tool) => Ok(tool.clone()),
            None => Ok(Wgoose::build(Profile::Dev)?.path().to_owned()),
        }
    }
}

/// Checks the pages that people write.
///
/// # Errors
/// Lists every table that is not what its records give, every claim without a source, every broken link, every habit.
pub(crate) fn written(root: &Path) -> Result<()> {
    let mut pages = Vec::new();
    for page in PAGES {
        find(&root.join(page), &mut pages)?;
    }
    pages.retain(|page| !is_made(root, page));
    pages.sort();
    let (mut records, mut findings) = (citation::Records::default(), Vec::new());
    let tables = declared(root)?;
    let mut texts = Vec::new();
    for path in &pages {
        let text = read(path)?;
        let local = path.strip_prefix(root).unwrap_or(path);
        let filled = tables.filled(root, local, &text, &mut records);
        if filled.map_err(|e| Error::Other(format!("{}: {e}", path.display())))? != text {
            let help = "cargo xtask evidence --write";
            findings.push(format!("{}: a table is not what its records give: {help}", path.display()));
        }
        let page = page::check(path, &tables::without(&text));
        let page = page.map_err(|e| Error::file("read a picture of", path, e))?;
        println!("{}: {} figures with a source on the web", path.display(), page.elsewhere);
        let said = page.findings.iter().map(|f| format!("{}:{}: {} {}", path.display(), f.line, f.figure, f.why));
        findings.extend(said);
        texts.push(text);
    }
    findings.extend(tables.unused(&texts).iter().map(|name| format!("table '{name}' is declared and on no page")));
    findings.extend(broken_links(root, &pages)?);
    findings.extend(habits(root)?);
    findings.extend(habits_of_heads(root)?);
    match findings.is_empty() {
        true => Ok(()),
        false => Err(Error::Other(format!("{} faults on pages:\n{}", findings.len(), findings.join("\n")))),
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| Error::file("read", path, e))
}

/// The tables that are declared.
fn declared(root: &Path) -> Result<tables::Tables> {
    tables::Tables::read(root).map_err(|e| Error::Other(e.to_string()))
}

/// Fills the tables of all pages that people write.
fn fill(root: &Path) -> Result<()> {
    let tables = declared(root)?;
    let (mut pages, mut records) = (Vec::new(), citation::Records::default());
    for page in PAGES {
        find(&root.join(page), &mut pages)?;
    }
    for path in pages.iter().filter(|page| !is_made(root, page)) {
        let text = read(path)?;
        let local = path.strip_prefix(root).unwrap_or(path);
        let filled = tables.filled(root, local, &text, &mut records);
        let filled = filled.map_err(|e| Error::Other(format!("{}: {e}", path.display())))?;
        if filled != text {
            fs::write(path, filled).map_err(|e| Error::file("write", path, e))?;
        }
    }
    Ok(())
}

/// Links that lead nowhere.
fn broken_links(root: &Path, pages: &[PathBuf]) -> Result<Vec<String>> {
    let mut anchors = links::Anchors::default();
    let mut findings = Vec::new();
    for path in LINKED.iter().map(|page| root.join(page)).chain(pages.iter().cloned()) {
        let broken = anchors.broken(&path, &read(&path)?);
        let said = broken.iter().map(|(line, target)| format!("{}:{line}: '{target}' leads nowhere", path.display()));
        findings.extend(said);
    }
    Ok(findings)
}

/// Habits of prose on pages that strangers read first, and in the help of the command line.
fn habits(root: &Path) -> Result<Vec<String>> {
    let (mut pages, mut findings) = (Vec::new(), Vec::new());
    for page in PLAIN {
        find(&root.join(page), &mut pages)?;
    }
    pages.retain(|page| *page != root.join(BENCHMARKS));
    for path in pages {
        let page = read(&path)?;
        let said = if path == root.join(CLI) { prose::habits_of_help(&page) } else { prose::habits(&page) };
        findings.extend(
            said.into_iter()
                .map(|(line, habit, sentence)| format!("{}:{line}: {}: '{sentence}'", path.display(), habit.advice())),
        );
    }
    Ok(findings)
}

/// Habits of prose in the heads of modules.
fn habits_of_heads(root: &Path) -> Result<Vec<String>> {
    let (mut files, mut findings) = (Vec::new(), Vec::new());
    for folder in CODE {
        find_all(&root.join(folder), &mut files)?;
    }
    for path in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let is_left = HEADS_LEFT.iter().any(|left| *path == root.join(left));
        let said = prose::habits_of_head(&read(path)?);
        if is_left && said.is_empty() {
            findings.push(format!("{}: its head has no habit left: take it out of HEADS_LEFT", path.display()));
        }
        findings.extend(
            said.into_iter()
                .filter(|_| !is_left)
                .map(|(line, habit, sentence)| format!("{}:{line}: {}: '{sentence}'", path.display(), habit.advice())),
        );
    }
    Ok(findings)
}

/// Makes the pages of experiments and of the command line anew, elsewhere, and compares.
///
/// # Errors
/// Names the first page that is not what its records give.
pub(crate) fn made(tool: &Path) -> Result<()> {
    let folder = tempfile::tempdir().map_err(|e| Error::file("create", Path::new("a folder"), e))?;
    let mut files = Vec::new();
    for experiment in experiments(Path::new(""))? {
        find_all(&experiment, &mut files)?;
    }
    for file in &files {
        let copy = folder.path().join(file);
        let parent = copy.parent().unwrap_or(folder.path());
        fs::create_dir_all(parent).map_err(|e| Error::file("create", parent, e))?;
        fs::copy(file, &copy).map_err(|e| Error::file("copy", file, e))?;
    }
    let tool = absolute(tool)?;
    if read(Path::new(CLI))? != cli::page(&tool)? {
        return Err(Error::Other(format!("{CLI} is not what the tool's help says: cargo xtask evidence --write")));
    }
    let answered = experiments(Path::new(""))?.into_iter().filter(|experiment| experiment.join("results").is_dir());
    let mut render = crate::shell::command(&tool, ["dev", "experiment", "render"]);
    capture(render.args(answered).current_dir(folder.path()))?;
    let bytes = |path: &Path| fs::read(path).map_err(|e| Error::file("read", path, e));
    for file in files {
        if bytes(&file)? != bytes(&folder.path().join(&file))? {
            let file = file.display();
            return Err(Error::Other(format!(
                "{file} is not what its records give: make it again, or mend the records"
            )));
        }
    }
    Ok(())
}

fn absolute(tool: &Path) -> Result<PathBuf> {
    fs::canonicalize(tool).map_err(|e| Error::file("find", tool, e))
}

/// Folders with a declaration: their pages are made.
fn experiments(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join("experiments");
    let entries = fs::read_dir(&folder).map_err(|e| Error::file("list", &folder, e))?;
    let folders = entries.flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = folders.filter(|folder| folder.join("experiment.ron").exists()).collect();
    folders.sort();
    Ok(folders)
}

fn is_made(root: &Path, page: &Path) -> bool {
    page == root.join(BENCHMARKS)
        || page == root.join(CLI)
        || (page.with_file_name("experiment.ron").exists() && page.with_file_name("results").is_dir())
}

/// Pages in a folder, or the page itself.
fn find(path: &Path, pages: &mut Vec<PathBuf>) -> Result<()> {
    let mut files = Vec::new();
    find_all(path, &mut files)?;
    pages.extend(files.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "md")));
    Ok(())
}

fn find_all(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(|e| Error::file("list", path, e))?;
    entries.flatten().try_for_each(|entry| find_all(&entry.path(), files))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changing a digit of README makes the tests fail: the pages are those of the repository.
    #[test]
    fn the_pages_of_the_repository_are_founded() {
        // Tests run in the folder of their package.
        written(Path::new("..")).unwrap();
    }
}
