//! The bill of materials: all code that is in the program, in the form CycloneDX 1.5.

use anyhow::Result;
use serde_json::{Value, json};

use super::linked::{LinkedPackage, LinkedPackages};
use super::program::Library;
use super::release::Release;
use super::sums::sha256;

/// Returns the bill for a program, as JSON.
///
/// # Errors
/// The program's own package is not among the linked ones.
pub(super) fn bill(
    release: &Release,
    linked: &LinkedPackages,
    libraries: &[Library],
    program: &[u8],
) -> Result<Vec<u8>> {
    let (root, digest) = (linked.root()?, sha256(program));
    let mut subject = component("application", root);
    subject["hashes"] = json!([{"alg": "SHA-256", "content": digest}]);
    let others = linked.packages().filter(|package| package.reference() != root.reference());
    let mut components: Vec<_> = others.map(|package| component("library", package)).collect();
    components.extend(libraries.iter().map(library));
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": format!("urn:uuid:{}", uuid(&digest)),
        "version": 1,
        "metadata": {
            "timestamp": release.time()?,
            "tools": {"components": [
                {"type": "application", "name": "cargo xtask dist", "version": release.version},
            ]},
            "component": subject,
        },
        "components": components,
        "dependencies": dependencies(linked, root, libraries),
    });
    let mut text = serde_json::to_vec_pretty(&bill)?;
    text.push(b'\n');
    Ok(text)
}

fn component(kind: &str, package: &LinkedPackage) -> Value {
    let reference = package.reference();
    let mut component = json!({
        "type": kind, "bom-ref": reference, "name": package.name, "version": package.version, "purl": reference,
    });
    if let Some(licence) = &package.licence {
        component["licenses"] = json!([{"expression": licence}]);
    }
    if let Some(description) = &package.description {
        component["description"] = json!(description.trim());
    }
    component
}

fn library(library: &Library) -> Value {
    json!({
        "type": "library", "bom-ref": reference(library), "name": library.name, "version": library.version,
        "purl": reference(library), "licenses": [{"expression": library.licence}],
    })
}

fn reference(library: &Library) -> String {
    format!("pkg:generic/{}@{}", library.name, library.version)
}

/// Returns the dependencies of each component. Libraries that cargo does not know belong to the program.
fn dependencies(linked: &LinkedPackages, root: &LinkedPackage, libraries: &[Library]) -> Vec<Value> {
    let of_package = |package: &LinkedPackage| {
        let mut uses: Vec<_> = package.uses.iter().cloned().collect();
        if package.reference() == root.reference() {
            uses.extend(libraries.iter().map(reference));
        }
        json!({"ref": package.reference(), "dependsOn": uses})
    };
    let of_library = |library: &Library| json!({"ref": reference(library), "dependsOn": []});
    linked.packages().map(of_package).chain(libraries.iter().map(of_library)).collect()
}

/// Returns a UUID derived from the program's digest, so that the same program always has the same bill. Version 8 is
/// for custom numbers.
fn uuid(digest: &str) -> String {
    let part = |from: usize, to: usize| digest.get(from..to).unwrap_or_default();
    format!("{}-{}-8{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::super::linked::tests::example;
    use super::*;

    fn parsed() -> Value {
        let libraries = [Library { name: "glibc", version: "2.36".to_owned(), licence: "LGPL-2.1-or-later" }];
        let text = bill(&Release::example(), &example(), &libraries, b"program").unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn all_that_is_linked_is_on_the_bill_with_licence_and_address() {
        let bill = parsed();
        let components = bill["components"].as_array().unwrap();
        let names: Vec<_> = components.iter().map(|component| component["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["sum", "zip", "glibc"]);
        assert_eq!(components[1]["purl"], "pkg:cargo/zip@1.0.0%2Bup.2");
        assert_eq!(components[1]["licenses"], json!([{"expression": "MIT OR Apache-2.0"}]));
        let subject = &bill["metadata"]["component"];
        assert_eq!(subject["hashes"][0]["content"], sha256(b"program"));
        assert_eq!(bill["metadata"]["timestamp"], "2026-09-21T14:13:20Z");
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let bill = parsed();
        let of = |component: &Value| component["bom-ref"].as_str().unwrap().to_owned();
        let mut known: Vec<_> = bill["components"].as_array().unwrap().iter().map(of).collect();
        known.push(of(&bill["metadata"]["component"]));
        let dependencies = bill["dependencies"].as_array().unwrap();
        assert_eq!(dependencies.len(), known.len());
        for dependency in dependencies {
            for used in dependency["dependsOn"].as_array().unwrap() {
                assert!(known.iter().any(|known| known == used.as_str().unwrap()), "{used}");
            }
        }
    }

    #[test]
    fn the_number_has_the_form_of_its_version() {
        let uuid = uuid(&sha256(b"program"));
        let lengths: Vec<_> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!((&uuid[14..15], &uuid[19..20]), ("8", "8"));
    }
}
