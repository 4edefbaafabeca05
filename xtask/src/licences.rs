//! `cargo xtask licences`: the licences of all crates that are linked into what is published, with their texts, in one
//! file.
//!
//! A crate's texts are the files that its authors packed with it. One that has none is under a licence whose text is
//! known here, or that of another crate under the same; anything else is an error. Which licences may be there at all,
//! `deny.toml` says.

use crate::crates::{Crates, Package};
use crate::shell::{Error, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the file lies, beside the licences of this project: packaging takes it from there.
pub(crate) const FILE: &str = "THIRD-PARTY-LICENSES";

/// What everything that is published has with it.
pub(crate) const ALL: [&str; 4] = ["LICENSE-MIT", "LICENSE-APACHE", "assets/LICENSE-rwkv-vocabulary", FILE];

/// What is published.
const PUBLISHED: [&str; 2] = ["wgoose", "wgoose-python"];

/// Licences whose texts are those of this project, but for the holder of the rights.
const KNOWN: [(&str, &str); 2] = [("MIT", "LICENSE-MIT"), ("Apache-2.0", "LICENSE-APACHE")];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Output file
    #[arg(long, default_value = FILE)]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    write(&args.out)
}

/// Writes the file, for every target.
///
/// # Errors
/// A crate without a text, or what the system said.
pub(crate) fn write(out: &Path) -> Result<()> {
    let crates = Crates::read(None)?;
    let mut linked = BTreeMap::new();
    for name in PUBLISHED {
        let parts = crates.parts(crates.own(name)?, &[None]);
        linked.extend(
            parts.into_keys().filter_map(|id| crates.package(id)).map(|package| (package.reference(), package)),
        );
    }
    let foreign = linked.into_values().filter(|package| package.source.is_some());
    let found = foreign.map(|package| Ok((package, texts(package)?))).collect::<Result<Vec<_>>>()?;
    let known = KNOWN.map(|(licence, file)| Ok((licence, without_holder(&read(file.as_ref())?))));
    let known = known.into_iter().collect::<Result<Vec<_>>>()?;
    let page = page(&found, &known).map_err(Error::Other)?;
    fs::write(out, page).map_err(|e| Error::file("write", out, e))?;
    println!("{}: {} crates", out.display(), found.len());
    Ok(())
}

/// The texts that a crate was packed with.
fn texts(package: &Package) -> Result<Vec<String>> {
    let folder = package.manifest_path.parent().unwrap_or(Path::new("."));
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
    let mut files: Vec<_> =
        entries.map_err(|e| Error::file("read", folder, e))?.into_iter().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file() && path.file_name().is_some_and(|name| is_licence(&name.to_string_lossy())));
    files.sort();
    files.iter().map(|path| read(path)).collect()
}

fn is_licence(file: &str) -> bool {
    let file = file.to_lowercase();
    ["licen", "unlicen", "copying", "copyright", "notice"].iter().any(|start| file.starts_with(start))
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(|e| Error::file("read", path, e))?;
    Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
}

/// A licence but for the line that says whose rights they are.
fn without_holder(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("Copyright (c)")).map(|line| format!("{line}\n")).collect()
}

/// All crates with their licences, then each text once with the crates that it is from.
///
/// # Errors
/// A crate whose licence has no text.
fn page(crates: &[(&Package, Vec<String>)], known: &[(&str, String)]) -> std::result::Result<String, String> {
    let licence = |package: &Package| package.license.clone().unwrap_or_default().replace('/', " OR ");
    let mut page =
        String::from("The programs of wgoose are made of these crates, some of them only on some systems.\n\n");
    let mut by_text: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut without = Vec::new();
    for (package, texts) in crates {
        let _ = writeln!(page, "{} {}: {}", package.name, package.version, licence(package));
        let _ = writeln!(page, "    {}", package.repository.as_deref().unwrap_or("-"));
        texts.iter().for_each(|text| by_text.entry(text.trim()).or_default().push(package.reference()));
        if texts.is_empty() {
            without.push(*package);
        }
    }
    for package in without {
        let allowed = licence(package);
        let same = || crates.iter().find(|(other, texts)| licence(other) == allowed && !texts.is_empty());
        let holder = match package.authors.join(", ") {
            none if none.is_empty() => format!("the authors of {}", package.name),
            authors => authors,
        };
        let text = match known.iter().find(|(name, _)| allowed.split(" OR ").any(|one| one == *name)) {
            Some((_, text)) => text.trim(),
            None => same()
                .map(|(_, texts)| texts[0].trim())
                .ok_or_else(|| format!("{} is under {allowed}, of which no text is at hand", package.reference()))?,
        };
        by_text.entry(text).or_default().push(format!("{} (copyright: {holder})", package.reference()));
    }
    for (text, from) in by_text {
        let _ = write!(page, "\n{}\n{}\n\n{text}\n", "-".repeat(80), from.join(", "));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, licence: &str) -> Package {
        Package {
            id: name.into(),
            name: name.into(),
            version: "1.0.0".into(),
            license: Some(licence.into()),
            repository: None,
            authors: vec![],
            manifest_path: PathBuf::new(),
            source: Some("registry".into()),
        }
    }

    #[test]
    fn a_licence_text_is_printed_once_with_all_its_packages() {
        let [one, two, bare] = ["one", "two", "bare"].map(|name| package(name, "MIT/Apache-2.0"));
        let text = vec!["May be used.\n".to_owned()];
        let known = [("MIT", "Permission is granted.".to_owned())];
        let page = page(&[(&one, text.clone()), (&two, text), (&bare, vec![])], &known).unwrap();
        assert_eq!(page.matches("May be used.").count(), 1);
        assert!(page.contains("one@1.0.0, two@1.0.0\n\nMay be used."), "{page}");
        assert!(page.contains("bare@1.0.0 (copyright: the authors of bare)\n\nPermission is granted."), "{page}");
    }

    #[test]
    fn a_crate_without_a_text_is_an_error_unless_another_has_it() {
        let [bare, other] = ["bare", "other"].map(|name| package(name, "BSL-1.0"));
        let error = page(&[(&bare, vec![])], &[]).unwrap_err();
        assert_eq!(error, "bare@1.0.0 is under BSL-1.0, of which no text is at hand");
        assert!(page(&[(&bare, vec![]), (&other, vec!["Boost".into()])], &[]).is_ok());
    }

    #[test]
    fn licences_are_told_by_their_names() {
        for name in ["LICENSE", "LICENSE.MIT", "license-apache-2.0", "COPYING", "UNLICENSE", "NOTICE.txt"] {
            assert!(is_licence(name), "{name}");
        }
        assert!(!is_licence("README.md") && !is_licence("Cargo.toml"));
    }
}
