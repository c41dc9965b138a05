//! The container image, in the layout of the Open Container Initiative: the program, the licences, and nothing else.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::contents::{Contents, Layout};
use super::program::TargetMachine;
use super::release::Release;
use super::sums::sha256;
use super::tarball::{ArchiveFile, gzip, tar};

const PROGRAM: &str = "usr/bin/hakobu";
const LAYOUT: Layout = Layout { prefix: "usr/", zsh_directory: "", packs_manual: false };

const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";

/// The blobs of an image, by their paths.
#[derive(Debug, Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    /// Adds a blob, and returns its descriptor.
    fn add(&mut self, media_type: &str, data: Vec<u8>) -> Value {
        let (digest, size) = (sha256(&data), data.len());
        self.0.insert(path(&digest), data);
        json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size})
    }
}

fn path(digest: &str) -> String {
    format!("blobs/sha256/{digest}")
}

/// Returns the files of the layout, which `podman load`, `skopeo copy` and registries accept. `manifest.json` is for
/// versions of `docker load` that do not know the layout.
///
/// # Errors
/// A file cannot be packed.
pub(super) fn layout(
    release: &Release,
    machine: &TargetMachine,
    contents: &Contents,
    program: &[u8],
) -> Result<Vec<ArchiveFile>> {
    let mut files = contents.documents(&LAYOUT);
    files.push(ArchiveFile { path: PROGRAM.to_owned(), mode: 0o755, data: program.to_vec() });
    let layer = tar(&files, "", release.epoch)?;
    let config = serde_json::to_vec(&config(release, machine, &sha256(&layer))?)?;

    let mut blobs = Blobs::default();
    let config = blobs.add(CONFIG_TYPE, config);
    let layer = blobs.add(LAYER_TYPE, gzip(&layer)?);
    let name = format!("hakobu:{}", release.version);
    let docker = docker_manifest(&name, &config, &layer)?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": [layer],
    });
    let mut manifest = blobs.add(MANIFEST_TYPE, serde_json::to_vec(&manifest)?);
    manifest["platform"] = json!({"architecture": machine.oci, "os": "linux"});
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": name});
    let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [manifest]});

    let text = |path: &str, value: &Value| -> Result<ArchiveFile> {
        Ok(ArchiveFile { path: path.to_owned(), mode: 0o644, data: serde_json::to_vec(value)? })
    };
    let mut layout: Vec<_> =
        blobs.0.into_iter().map(|(path, data)| ArchiveFile { path, mode: 0o644, data }).collect();
    layout.push(text("index.json", &index)?);
    layout.push(text("manifest.json", &docker)?);
    layout.push(text("oci-layout", &json!({"imageLayoutVersion": "1.0.0"}))?);
    Ok(layout)
}

/// Returns the configuration of the image. `layer` is the digest of the unpacked layer.
fn config(release: &Release, machine: &TargetMachine, layer: &str) -> Result<Value> {
    let created = release.time()?;
    Ok(json!({
        "created": created,
        "architecture": machine.oci,
        "os": "linux",
        "config": {
            "Entrypoint": [format!("/{PROGRAM}")],
            "Env": ["PATH=/usr/bin"],
            "Labels": {
                "org.opencontainers.image.title": "hakobu",
                "org.opencontainers.image.description": release.description,
                "org.opencontainers.image.licenses": release.licence,
                "org.opencontainers.image.version": release.version,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        "history": [{"created": created, "created_by": "cargo xtask dist"}],
    }))
}

/// Returns the list of images in Docker's older format.
fn docker_manifest(name: &str, config: &Value, layer: &Value) -> Result<Value> {
    let path = |blob: &Value| -> Result<String> {
        let digest = blob["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
        Ok(path(digest.context("a blob has no digest")?))
    };
    Ok(json!([{"Config": path(config)?, "RepoTags": [name], "Layers": [path(layer)?]}]))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::program::MACHINES;
    use super::*;

    /// Returns the files of an image by path.
    fn files() -> BTreeMap<String, Vec<u8>> {
        let layout = layout(&Release::example(), &MACHINES[1], &Contents::example(), b"program").unwrap();
        layout.into_iter().map(|file| (file.path, file.data)).collect()
    }

    /// Returns the blob of a descriptor, and fails unless its size and digest agree.
    fn blob(files: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let data = files[&path(digest)].clone();
        assert_eq!(sha256(&data), digest);
        assert_eq!(descriptor["size"], data.len());
        data
    }

    fn parsed(data: &[u8]) -> Value {
        serde_json::from_slice(data).unwrap()
    }

    #[test]
    fn the_index_leads_to_the_program() {
        let files = files();
        assert_eq!(parsed(&files["oci-layout"])["imageLayoutVersion"], "1.0.0");
        let index = parsed(&files["index.json"]);
        assert_eq!(index["manifests"][0]["platform"], json!({"architecture": "arm64", "os": "linux"}));
        let manifest = parsed(&blob(&files, &index["manifests"][0]));
        let config = parsed(&blob(&files, &manifest["config"]));
        assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/hakobu"]));
        let packed = blob(&files, &manifest["layers"][0]);
        let mut layer = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut layer).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", sha256(&layer))]));
        let mut archive = tar::Archive::new(layer.as_slice());
        let program = archive.entries().unwrap().map(|entry| entry.unwrap());
        let mut program = program.filter(|entry| entry.path_bytes().as_ref() == PROGRAM.as_bytes());
        let mut data = String::new();
        program.next().unwrap().read_to_string(&mut data).unwrap();
        assert_eq!(data, "program");
    }

    #[test]
    fn docker_finds_the_same_blobs() {
        let files = files();
        let docker = parsed(&files["manifest.json"]);
        assert_eq!(docker[0]["RepoTags"], json!(["hakobu:0.2.0-rc.1"]));
        for path in [&docker[0]["Config"], &docker[0]["Layers"][0]] {
            assert!(files.contains_key(path.as_str().unwrap()), "{path}");
        }
        assert_eq!(files.len(), 6);
    }
}
