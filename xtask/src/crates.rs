//! The crates that a package is made of, from `cargo metadata`.

use crate::shell::{Error, Result, capture, cargo};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What `cargo metadata` says.
#[derive(Deserialize)]
pub(crate) struct Crates {
    packages: Vec<Package>,
    resolve: Resolve,
}

/// A crate.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) repository: Option<String>,
    #[serde(default)]
    pub(crate) authors: Vec<String>,
    /// Where its source lies.
    pub(crate) manifest_path: PathBuf,
    /// `None`: it is of this workspace.
    pub(crate) source: Option<String>,
}

impl Package {
    /// What it is called in lists: ids of cargo's have paths of this machine in them.
    pub(crate) fn reference(&self) -> String {
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
    kind: Option<Use>,
}

/// What a dependency is for, where it is not linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Use {
    /// Tests and examples.
    Dev,
    /// A build script.
    Build,
}

impl Crates {
    /// The crates of every target, or of one, as rustc calls it.
    ///
    /// # Errors
    /// When cargo fails.
    pub(crate) fn read(target: Option<&str>) -> Result<Self> {
        let mut metadata = cargo("metadata --format-version 1 --locked");
        if let Some(target) = target {
            metadata.args(["--filter-platform", target]);
        }
        let wrong = |why: serde_json::Error| Error::Other(format!("cargo metadata: {why}"));
        serde_json::from_str(&capture(&mut metadata)?).map_err(wrong)
    }

    /// A package of this workspace.
    ///
    /// # Errors
    /// When there is none of that name.
    pub(crate) fn own(&self, name: &str) -> Result<&Package> {
        let found = self.packages.iter().find(|package| package.name == name && package.source.is_none());
        found.ok_or_else(|| Error::Other(format!("cargo metadata lists no {name}")))
    }

    /// The folders in which crates of others lie, one in each.
    pub(crate) fn registries(&self) -> BTreeSet<PathBuf> {
        let foreign = self.packages.iter().filter(|package| package.source.is_some());
        foreign.filter_map(|package| Some(package.manifest_path.parent()?.parent()?.to_owned())).collect()
    }

    /// The crate with an id of cargo's.
    pub(crate) fn package(&self, id: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.id == id)
    }

    /// The ids of a package and of all that it needs in the uses asked for (`None`: linked), each with those that it
    /// needs itself.
    pub(crate) fn parts<'a>(
        &'a self,
        package: &'a Package,
        uses: &[Option<Use>],
    ) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
        let is_part = |d: &&Dependency| d.dep_kinds.iter().any(|k| uses.contains(&k.kind));
        let of = |id: &str| -> BTreeSet<&str> {
            let node = self.resolve.nodes.iter().find(|node| node.id == id);
            node.into_iter().flat_map(|node| node.deps.iter().filter(is_part).map(|d| d.pkg.as_str())).collect()
        };
        let mut parts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut open = vec![package.id.as_str()];
        while let Some(id) = open.pop() {
            if !parts.contains_key(id) {
                open.extend(of(id));
                parts.insert(id, of(id));
            }
        }
        parts
    }
}
