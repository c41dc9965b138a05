//! The packages whose code is linked into the program, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::program::{BuildEnvironment, TargetMachine, output_of};

/// The package that the program is built from.
const ROOT: &str = "hakobu";

/// A package of cargo whose code is in the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkedPackage {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub licence: Option<String>,
    pub description: Option<String>,
    /// The folder of its manifest.
    pub directory: PathBuf,
    /// True if it is part of this workspace.
    pub is_ours: bool,
    /// The [references](Self::reference) of the packages that it uses.
    pub uses: BTreeSet<String>,
}

impl LinkedPackage {
    /// Returns the package URL, which names the package in a bill of materials. Packages of ours are in no registry.
    pub(super) fn reference(&self) -> String {
        let kind = if self.is_ours { "generic" } else { "cargo" };
        format!("pkg:{kind}/{}@{}", self.name, self.version.replace('+', "%2B"))
    }
}

/// All packages whose code is in the program.
#[derive(Debug)]
pub(super) struct LinkedPackages {
    packages: BTreeMap<String, LinkedPackage>,
}

impl LinkedPackages {
    /// Asks cargo for the packages of the program for `machine`.
    pub(super) fn read(environment: &BuildEnvironment, machine: &TargetMachine) -> Result<Self> {
        let mut cargo = environment.cargo();
        cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &machine.triple()]);
        Self::parse(&output_of(&mut cargo)?)
    }

    fn parse(text: &str) -> Result<Self> {
        let metadata: CargoMetadata =
            serde_json::from_str(text).context("reading what cargo metadata says")?;
        metadata.linked()
    }

    /// Returns the package that the program is built from.
    pub(super) fn root(&self) -> Result<&LinkedPackage> {
        let root = self.packages().find(|package| package.is_ours && package.name == ROOT);
        root.with_context(|| format!("cargo metadata has no package {ROOT}"))
    }

    /// Iterates over all packages, sorted by their references.
    pub(super) fn packages(&self) -> impl Iterator<Item = &LinkedPackage> {
        self.packages.values()
    }

    /// Iterates over the folders that hold the packages of others, each once.
    pub(super) fn source_directories(&self) -> impl Iterator<Item = &Path> {
        let others = self.packages().filter(|package| !package.is_ours);
        let parents: BTreeSet<_> = others.filter_map(|package| package.directory.parent()).collect();
        parents.into_iter()
    }
}

/// The relevant part of the output of `cargo metadata`.
#[derive(Debug, Deserialize)]
struct CargoMetadata {
    packages: Vec<CargoPackage>,
    resolve: DependencyGraph,
}

#[derive(Debug, Deserialize)]
struct CargoPackage {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    license_file: Option<String>,
    description: Option<String>,
    manifest_path: PathBuf,
    source: Option<String>,
    targets: Vec<CargoTarget>,
}

#[derive(Debug, Deserialize)]
struct CargoTarget {
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct DependencyGraph {
    nodes: Vec<DependencyNode>,
}

#[derive(Debug, Deserialize)]
struct DependencyNode {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

impl CargoMetadata {
    /// Follows the dependencies from the program, without build scripts, procedural macros and test dependencies.
    fn linked(self) -> Result<LinkedPackages> {
        let packages: HashMap<_, _> =
            self.packages.iter().map(|package| (package.id.as_str(), package)).collect();
        let nodes: HashMap<_, _> = self.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let root = self.packages.iter().find(|package| package.source.is_none() && package.name == ROOT);
        let root = root.with_context(|| format!("cargo metadata has no package {ROOT}"))?;
        let (mut linked, mut open) = (BTreeMap::new(), vec![root]);
        while let Some(package) = open.pop() {
            let node = nodes.get(package.id.as_str()).context("cargo metadata leaves out a package")?;
            let used = node.deps.iter().filter(|dependency| dependency.is_normal());
            let used = used.filter_map(|dependency| packages.get(dependency.pkg.as_str()).copied());
            let used: Vec<_> = used.filter(|package| !package.is_macro()).collect();
            let mut entry = package.linked();
            entry.uses = used.iter().map(|package| package.linked().reference()).collect();
            if linked.insert(entry.reference(), entry).is_none() {
                open.extend(used);
            }
        }
        Ok(LinkedPackages { packages: linked })
    }
}

impl CargoPackage {
    fn is_macro(&self) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "proc-macro"))
    }

    fn linked(&self) -> LinkedPackage {
        // Manifests of old packages use a slash for OR.
        let alternatives =
            |licence: &String| licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ");
        let in_file = || self.license_file.as_ref().map(|_| "LicenseRef-file".to_owned());
        LinkedPackage {
            name: self.name.clone(),
            version: self.version.clone(),
            licence: self.license.as_ref().map(alternatives).or_else(in_file),
            description: self.description.clone(),
            directory: self.manifest_path.parent().unwrap_or(Path::new("/")).to_owned(),
            is_ours: self.source.is_none(),
            uses: BTreeSet::new(),
        }
    }
}

impl Dependency {
    fn is_normal(&self) -> bool {
        self.dep_kinds.iter().any(|kind| kind.kind.is_none())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn package(name: &str, source: Option<&str>, kind: &str) -> Value {
        json!({
            "id": name, "name": name, "version": "1.0.0+up.2", "license": "MIT/ Apache-2.0", "license_file": null,
            "description": "Moves data", "manifest_path": format!("/registry/src/x/{name}/Cargo.toml"),
            "source": source, "targets": [{"kind": ["custom-build"]}, {"kind": [kind]}],
        })
    }

    fn node(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
        let dependency =
            |(name, kind): &(&str, Option<&str>)| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        json!({"id": name, "deps": dependencies.iter().map(dependency).collect::<Vec<_>>()})
    }

    /// Returns `hakobu`, which uses `zip`, which uses `sum`, and packages that are not linked.
    pub(in crate::dist) fn example() -> LinkedPackages {
        let registry = Some("registry");
        let metadata = json!({
            "packages": [
                package("hakobu", None, "bin"), package("zip", registry, "lib"), package("sum", registry, "lib"),
                package("derive", registry, "proc-macro"), package("cc", registry, "lib"),
                package("test", registry, "lib"), package("other", None, "bin"),
            ],
            "resolve": {"nodes": [
                node("hakobu", &[("zip", None), ("derive", None), ("test", Some("dev"))]),
                node("zip", &[("sum", None), ("cc", Some("build"))]),
                node("sum", &[]), node("derive", &[("cc", None)]), node("cc", &[]), node("test", &[]),
                node("other", &[("cc", None)]),
            ]},
        });
        LinkedPackages::parse(&metadata.to_string()).unwrap()
    }

    #[test]
    fn build_scripts_and_test_dependencies_are_not_linked() {
        let linked = example();
        let names: Vec<_> = linked.packages().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["sum", "zip", "hakobu"]);
        let root = linked.root().unwrap();
        assert_eq!(root.uses.iter().collect::<Vec<_>>(), ["pkg:cargo/zip@1.0.0%2Bup.2"]);
        assert_eq!(root.reference(), "pkg:generic/hakobu@1.0.0%2Bup.2");
    }

    #[test]
    fn licences_are_expressions_and_folders_come_once() {
        let linked = example();
        assert!(linked.packages().all(|package| package.licence.as_deref() == Some("MIT OR Apache-2.0")));
        assert_eq!(linked.source_directories().collect::<Vec<_>>(), [Path::new("/registry/src/x")]);
    }
}
