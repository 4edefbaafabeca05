//! `cargo xtask sbom`: which crates a released binary is made of, as CycloneDX (JSON, version 1.5).

use crate::crates::{Crates, Package, Use};
use crate::shell::{Error, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Output file
    #[arg(long, default_value = "target/wgoose.cdx.json")]
    out: PathBuf,
    /// Target of the binary, as rustc names it; default: the crates of every target
    #[arg(long)]
    target: Option<String>,
}

/// The package of the command-line tool.
const TOOL: &str = "wgoose";

pub(crate) fn run(args: &Args) -> Result<()> {
    write(&args.out, args.target.as_deref())
}

/// Writes the list for a target, or for all.
///
/// # Errors
/// When cargo fails, or the file cannot be written.
pub(crate) fn write(out: &Path, target: Option<&str>) -> Result<()> {
    let bom = bom(&Crates::read(target)?)?;
    fs::write(out, format!("{bom:#}\n")).map_err(|e| Error::file("write", out, e))?;
    println!("{}: {} crates", out.display(), bom["components"].as_array().map_or(0, Vec::len));
    Ok(())
}

/// The tool, what is linked into it or runs as it is built, and what each depends on.
fn bom(crates: &Crates) -> Result<Value> {
    let tool = crates.own(TOOL)?;
    let dependencies = crates.parts(tool, &[None, Some(Use::Build)]);
    let component = |package: &Package| {
        let Package { name, version, license, source, .. } = package;
        let mut component =
            json!({ "type": "library", "bom-ref": package.reference(), "name": name, "version": version });
        if let Some(license) = license {
            component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
        }
        if source.is_some() {
            component["purl"] = json!(format!("pkg:cargo/{name}@{version}"));
        }
        component
    };
    let mut subject = component(tool);
    subject["type"] = json!("application");
    let parts = dependencies.keys().filter(|id| **id != tool.id).filter_map(|id| crates.package(id));
    let reference = |id: &&str| crates.package(id).map(Package::reference);
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": subject },
        "components": parts.map(component).collect::<Vec<_>>(),
        "dependencies": dependencies
            .iter()
            .map(|(id, on)| json!({ "ref": reference(id), "dependsOn": on.iter().map(reference).collect::<Vec<_>>() }))
            .collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_tests_are_left_out() {
        let package = |name: &str, source: Option<&str>| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "manifest_path": "", "source": source });
        let on = |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let crates: Crates = serde_json::from_value(json!({
            "packages": [
                package("wgoose", None), package("linked", Some("registry")), package("builds", Some("registry")),
                package("tests", Some("registry")), package("elsewhere", None)
            ],
            "resolve": { "nodes": [
                { "id": "wgoose", "deps": [on("linked", None), on("tests", Some("dev"))] },
                { "id": "linked", "deps": [on("builds", Some("build"))] },
                { "id": "elsewhere", "deps": [on("wgoose", None)] }
            ] }
        }))
        .unwrap();
        let bom = bom(&crates).unwrap();
        let names: Vec<_> = bom["components"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
        assert_eq!(names, ["builds", "linked"]);
        assert_eq!(bom["components"][1]["purl"], "pkg:cargo/linked@1.0.0");
        assert_eq!(bom["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bom["metadata"]["component"]["name"], "wgoose");
        assert!(bom["metadata"]["component"].get("purl").is_none());
        assert_eq!(bom["dependencies"][2], json!({ "ref": "wgoose@1.0.0", "dependsOn": ["linked@1.0.0"] }));
    }
}
