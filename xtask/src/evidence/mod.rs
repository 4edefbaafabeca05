//! `cargo xtask evidence`: each figure on a page that claims a speed cites a record in the repository, and the record has it.
//! Pages that a program makes of records are made again, and must come out the same.

mod citation;
mod number;
mod page;
mod picture;

use crate::shell::{Error, Result, capture};
use crate::wgoose::{Profile, Wgoose};
use std::fs;
use std::path::{Path, PathBuf};

/// Pages that people write: files, and folders with all that is in them.
const PAGES: [&str; 4] = ["README.md", "optimization_plan", "experiments", "plans"];

/// The page that `wgoose bench` makes of the records beside it.
const BENCHMARKS: &str = "optimization_plan/benchmarks.md";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only pages that people write: nothing is built
    #[arg(long, conflicts_with = "tool")]
    written: bool,
    /// A tool that is built already
    #[arg(long, value_name = "FILE")]
    tool: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    written(Path::new(""))?;
    match &args.tool {
        _ if args.written => Ok(()),
        Some(tool) => made(tool),
        None => made(Wgoose::build(Profile::Dev)?.path()),
    }
}

/// Holds the pages that people write against what they cite.
///
/// # Errors
/// Lists every figure that cites no record, or another one than the record has.
pub(crate) fn written(root: &Path) -> Result<()> {
    let mut pages = Vec::new();
    for page in PAGES {
        find(&root.join(page), &mut pages)?;
    }
    pages.retain(|page| !is_made(root, page));
    pages.sort();
    let (mut records, mut findings) = (citation::Records::default(), Vec::new());
    for path in &pages {
        let text = fs::read_to_string(path).map_err(|e| Error::file("read", path, e))?;
        let page = page::check(path, &text, &mut records).map_err(|e| Error::file("read a picture of", path, e))?;
        println!("{}: {} figures in records, {} elsewhere", path.display(), page.founded, page.elsewhere);
        let said = page.findings.iter().map(|f| format!("{}:{}: {}: {}", path.display(), f.line, f.figure, f.why));
        findings.extend(said);
    }
    match findings.is_empty() {
        true => Ok(()),
        false => Err(Error::Other(format!("{} figures are not founded:\n{}", findings.len(), findings.join("\n")))),
    }
}

/// Makes the pages that programs make anew, elsewhere, and compares.
///
/// # Errors
/// Names the first page that is not what its records give.
pub(crate) fn made(tool: &Path) -> Result<()> {
    let folder = tempfile::tempdir().map_err(|e| Error::file("create", Path::new("a folder"), e))?;
    let mut files = Vec::new();
    for experiment in experiments(Path::new(""))? {
        find_all(&experiment, &mut files)?;
    }
    files.extend(["md", "jsonl", "svg"].map(|extension| Path::new(BENCHMARKS).with_extension(extension)));
    for file in &files {
        let copy = folder.path().join(file);
        let parent = copy.parent().unwrap_or(folder.path());
        fs::create_dir_all(parent).map_err(|e| Error::file("create", parent, e))?;
        fs::copy(file, &copy).map_err(|e| Error::file("copy", file, e))?;
    }
    let tool = fs::canonicalize(tool).map_err(|e| Error::file("find", tool, e))?;
    let render = |words: &[&str], of: &[PathBuf]| {
        let mut command = crate::shell::command(&tool, words);
        capture(command.args(of).current_dir(folder.path()))
    };
    let answered = experiments(Path::new(""))?.into_iter().filter(|experiment| experiment.join("results").is_dir());
    render(&["experiment", "render"], &answered.collect::<Vec<_>>())?;
    render(&["bench", "render"], &[BENCHMARKS.into()])?;
    let read = |path: &Path| fs::read(path).map_err(|e| Error::file("read", path, e));
    for file in files {
        if read(&file)? != read(&folder.path().join(&file))? {
            let file = file.display();
            return Err(Error::Other(format!(
                "{file} is not what its records give: make it again, or mend the records"
            )));
        }
    }
    Ok(())
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
