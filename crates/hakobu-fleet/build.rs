//! Embeds the page of the control plane, if `cargo xtask ui` has built it: a table of its files, each as it is and compressed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let dist = manifest.join("../../ui/dist");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    if dist.is_dir() {
        list(&dist, &dist, &mut files)?;
    }
    files.sort();
    let mut table = String::from("&[\n");
    for (index, name) in files.iter().enumerate() {
        let path = dist.join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        let plain = fs::read(&path)?;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&plain)?;
        let (kept, packed) = (out.join(format!("{index}.file")), out.join(format!("{index}.gz")));
        fs::write(&kept, plain)?;
        fs::write(&packed, encoder.finish()?)?;
        let _ = writeln!(table, "    (\"/{name}\", include_bytes!({kept:?}), include_bytes!({packed:?})),");
    }
    table.push(']');
    fs::write(out.join("page_files.rs"), table)
}

/// Adds the files below a folder, by their names with slashes.
fn list(root: &Path, folder: &Path, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(root, &path, files)?;
        } else if let Ok(name) = path.strip_prefix(root) {
            files.push(name.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}
