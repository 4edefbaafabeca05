//! `cargo xtask release`: what is published, in one folder: programs, wheels, the source package, lists of crates,
//! checksums.

use crate::crates::Crates;
use crate::licences;
use crate::own_paths::OwnPaths;
use crate::python;
use crate::sbom;
use crate::sdist;
use crate::shell::{self, Error, Result, capture, cargo, command, probe};
use crate::wgoose::target;
use clap::ValueEnum;
use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Part of the release to build
    #[arg(value_enum, default_values_t = Part::value_variants().to_vec())]
    parts: Vec<Part>,
    /// Output folder
    #[arg(long, default_value = "target/published")]
    out: PathBuf,
    /// Also build the source package outside of the repository, in an empty environment
    #[arg(long)]
    build: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The command-line tool for this machine's target, with its licences and its list of crates
    Binary,
    /// The Python package for this machine's target
    Wheel,
    /// The Python package's sources
    Sdist,
}

/// The glibc that programs for Linux ask for: the oldest that Rust's own library runs on. Linked by the system's linker
/// they would ask for that of the machine that built them; zig has the symbols of each.
const GLIBC: &str = "2.17";

/// The list of checksums.
const SUMS: &str = "SHA256SUMS";

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.build && !args.parts.contains(&Part::Sdist) {
        return Err(Error::Other("--build is for the source package: add sdist".into()));
    }
    let out = args.out.as_path();
    empty(out)?;
    licences::write(licences::FILE.as_ref())?;
    let python = python::packaging()?;
    let own = OwnPaths::read()?;
    if args.parts.contains(&Part::Binary) {
        binary(&python, &own, out)?;
    }
    if args.parts.contains(&Part::Wheel) {
        wheel(&python, &own, out)?;
    }
    if args.parts.contains(&Part::Sdist) {
        let archive = sdist::make(&python, out)?;
        if args.build {
            sdist::build(&python, &archive)?;
        }
    }
    sums(out)
}

/// Makes a folder, unless it is there and empty: what an earlier run has left would have a checksum, too.
fn empty(out: &Path) -> Result<()> {
    fs::create_dir_all(out).map_err(|e| Error::file("make", out, e))?;
    let mut entries = fs::read_dir(out).map_err(|e| Error::file("read", out, e))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Error::Other(format!("{} is not empty: remove it, or choose another (--out)", out.display()))),
    }
}

/// The tool, stripped, as `wgoose-VERSION-TARGET.tar.gz`, and the crates in it beside it.
fn binary(python: &Path, own: &OwnPaths, out: &Path) -> Result<()> {
    let host = host()?;
    let name = format!("wgoose-{}-{host}", Crates::read(Some(&host))?.own("wgoose")?.version);
    let (mut build, place) = if cfg!(target_os = "linux") {
        let mut zig =
            command(python.with_file_name("cargo-zigbuild"), ["rustc", "--target", &format!("{host}.{GLIBC}")]);
        zig.env("PATH", path_with(python)?);
        (zig, target().join(&host))
    } else {
        (cargo("rustc"), target())
    };
    build.envs([own.left_out()]);
    // The last flag is for the last crate alone.
    build.args("--package wgoose --bin wgoose --release --locked -- -C strip=symbols".split(' '));
    shell::run(&mut build)?;
    let list = out.join(format!("{name}.cdx.json"));
    sbom::write(&list, Some(&host))?;

    let folder = out.join(&name);
    fs::create_dir(&folder).map_err(|e| Error::file("make", &folder, e))?;
    let program = format!("wgoose{EXE_SUFFIX}");
    let built = place.join("release").join(&program);
    own.look_for(&built)?;
    let files = ["README.md", "CHANGELOG.md"].into_iter().chain(licences::ALL);
    for file in files.map(PathBuf::from).chain([built]) {
        let copy = folder.join(file.file_name().unwrap_or_default());
        fs::copy(&file, &copy).map_err(|e| Error::file("copy", &file, e))?;
    }
    let version = capture(&mut command(folder.join(&program), ["--version"]))?;
    println!("{}", version.trim());
    let archive = out.join(format!("{name}.tar.gz"));
    shell::run(command("tar", ["-czf"]).arg(&archive).arg("-C").arg(out).arg(&name))?;
    fs::remove_dir_all(&folder).map_err(|e| Error::file("remove", &folder, e))
}

/// What rustc calls this machine's kind.
fn host() -> Result<String> {
    let said = capture(&mut command("rustc", ["-vV"]))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Error::Other("rustc -vV names no host".into()))
}

/// A wheel for every CPython from 3.10 on. On Linux maturin looks whether it asks for no newer glibc.
fn wheel(python: &Path, own: &OwnPaths, out: &Path) -> Result<()> {
    let mut build = command(python, ["-m", "maturin", "build", "--release", "--locked", "--strip", "--out"]);
    build.arg(out).envs([own.left_out()]);
    if cfg!(target_os = "linux") {
        let compatible = format!("manylinux_{}", GLIBC.replace('.', "_"));
        build.args(["--zig", "--compatibility", &compatible]).env("PATH", path_with(python)?);
    }
    shell::run(&mut build)?;
    // Its files, as they are installed.
    let place = tempfile::tempdir().map_err(|e| Error::file("make a folder in", &std::env::temp_dir(), e))?;
    let made = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    let wheel = listed(out)?.into_iter().find(made);
    let wheel = wheel.ok_or_else(|| Error::Other(format!("maturin has left no wheel in {}", out.display())))?;
    shell::run(command(python, ["-m", "zipfile", "-e"]).args([&wheel, place.path()]))?;
    let module = listed(&place.path().join("wgoose"))?.into_iter();
    let mut module =
        module.filter(|path| path.extension().is_some_and(|extension| ["so", "pyd"].iter().any(|e| extension == *e)));
    let module = module.next().ok_or_else(|| Error::Other(format!("{} has no extension module", wheel.display())))?;
    own.look_for(&module)
}

/// What lies in a folder, sorted.
fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
    let mut paths: Vec<PathBuf> =
        entries.map_err(|e| Error::file("read", folder, e))?.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// The variable PATH, the folder of the Python that has zig first: compilers look for it, from folders of their own.
fn path_with(python: &Path) -> Result<OsString> {
    let python = std::path::absolute(python).map_err(|e| Error::file("find", python, e))?;
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let first = python.parent().map(Path::to_owned);
    let paths = std::env::join_paths(first.into_iter().chain(std::env::split_paths(&paths)));
    paths.map_err(|e| Error::Other(format!("PATH: {e}")))
}

/// The checksums of all that was made, as `sha256sum --check` reads them.
fn sums(out: &Path) -> Result<()> {
    let names: Vec<OsString> = listed(out)?.iter().filter_map(|path| Some(path.file_name()?.to_owned())).collect();
    let programs = [&["sha256sum"][..], &["shasum", "-a", "256"]];
    let said = programs.iter().find_map(|words| probe(command(words[0], &words[1..]).args(&names).current_dir(out)));
    let said = said.ok_or_else(|| Error::Other("checksums need sha256sum or shasum".into()))?;
    let file = out.join(SUMS);
    fs::write(&file, format!("{said}\n")).map_err(|e| Error::file("write", &file, e))?;
    println!("\n{said}\n{} files in {}", names.len() + 1, out.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_files_are_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("new/folder");
        empty(&out).unwrap();
        empty(&out).unwrap();
        fs::write(out.join("precious"), "").unwrap();
        assert!(empty(&out).unwrap_err().to_string().contains("is not empty"));
        assert!(out.join("precious").is_file());
    }

    #[cfg(unix)]
    #[test]
    fn sums_are_of_all_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b"), "").unwrap();
        fs::write(folder.path().join("a"), "abc").unwrap();
        sums(folder.path()).unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let found = fs::read_to_string(folder.path().join(SUMS)).unwrap();
        assert_eq!(found, format!("{abc}  a\n{empty}  b\n"));
    }
}
