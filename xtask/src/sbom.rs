//! `cargo xtask sbom`: which crates a released binary is made of, as CycloneDX (JSON, version 1.5), from `cargo metadata`.

use crate::shell::{Error, Result, capture, cargo};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where it goes
    #[arg(long, default_value = "target/wgoose.cdx.json")]
    out: PathBuf,
    /// What the binary is for, as rustc calls it; by default crates of every target are listed
    #[arg(long)]
    target: Option<String>,
}

/// The package of the command-line tool.
const TOOL: &str = "wgoose";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// `None`: it is of this workspace.
    source: Option<String>,
}

impl Package {
    /// Its name in the list: ids of cargo's have paths of this machine in them.
    fn reference(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// `dev`, `build`, or nothing for what is linked.
    kind: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut metadata = cargo("metadata --format-version 1 --locked");
    if let Some(target) = &args.target {
        metadata.args(["--filter-platform", target]);
    }
    let wrong = |why: serde_json::Error| Error::Other(format!("cargo metadata: {why}"));
    let metadata: Metadata = serde_json::from_str(&capture(&mut metadata)?).map_err(wrong)?;
    let bom = bom(&metadata).ok_or_else(|| Error::Other(format!("cargo metadata lists no {TOOL}")))?;
    fs::write(&args.out, format!("{bom:#}\n")).map_err(|e| Error::file("write", &args.out, e))?;
    println!("{}: {} crates", args.out.display(), bom["components"].as_array().map_or(0, Vec::len));
    Ok(())
}

/// The tool, what is linked into it or runs as it is built, and what each depends on.
fn bom(metadata: &Metadata) -> Option<Value> {
    let packages: BTreeMap<&str, &Package> = metadata.packages.iter().map(|p| (p.id.as_str(), p)).collect();
    let tool = metadata.packages.iter().find(|p| p.name == TOOL && p.source.is_none())?;
    let is_part = |d: &&Dependency| d.dep_kinds.iter().any(|k| k.kind.as_deref() != Some("dev"));
    let of = |id: &str| -> BTreeSet<&str> {
        let node = metadata.resolve.nodes.iter().find(|node| node.id == id);
        node.into_iter().flat_map(|node| node.deps.iter().filter(is_part).map(|d| d.pkg.as_str())).collect()
    };
    let mut dependencies: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut open = vec![tool.id.as_str()];
    while let Some(id) = open.pop() {
        if !dependencies.contains_key(id) {
            open.extend(of(id));
            dependencies.insert(id, of(id));
        }
    }
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
    let parts = dependencies.keys().filter(|id| **id != tool.id).filter_map(|id| packages.get(id).copied());
    let reference = |id: &&str| packages.get(id).map(|package| package.reference());
    Some(json!({
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
    fn what_only_tests_use_is_no_part() {
        let package = |name: &str, source: Option<&str>| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source });
        let on = |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata: Metadata = serde_json::from_value(json!({
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
        let bom = bom(&metadata).unwrap();
        let names: Vec<_> = bom["components"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
        assert_eq!(names, ["builds", "linked"]);
        assert_eq!(bom["components"][1]["purl"], "pkg:cargo/linked@1.0.0");
        assert_eq!(bom["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bom["metadata"]["component"]["name"], "wgoose");
        assert!(bom["metadata"]["component"].get("purl").is_none());
        assert_eq!(bom["dependencies"][2], json!({ "ref": "wgoose@1.0.0", "dependsOn": ["linked@1.0.0"] }));
    }
}
