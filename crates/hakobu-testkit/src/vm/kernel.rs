//! The kernel of a virtual machine from a distribution's package: an image and modules.

use std::io;
use std::path::{Path, PathBuf};

use super::initramfs::{Initramfs, read};

/// An unpacked kernel package.
#[derive(Debug, Clone)]
pub struct KernelPackage {
    image: PathBuf,
    modules: Vec<PathBuf>,
}

impl KernelPackage {
    /// Opens the package that is unpacked in this directory.
    ///
    /// # Errors
    /// If there is none.
    pub fn unpacked_in(directory: &Path) -> io::Result<Self> {
        let none = || {
            let place = directory.display();
            io::Error::other(format!(
                "no kernel for virtual machines is in {place}: `./test --long` gets one"
            ))
        };
        let found = files(&directory.join("boot")).into_iter().find(|path| is_named(path, "vmlinuz-"));
        let image = found.ok_or_else(none)?;
        let modules = files(&directory.join("lib/modules"));
        Ok(Self { image, modules })
    }

    /// Returns the path of the image to boot.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Adds modules and their dependencies to a file system, in `/modules`. Returns the names of all of them, in the
    /// order in which they must be loaded. A module without a file is built into the kernel.
    ///
    /// # Errors
    /// If a module cannot be read.
    pub fn install(&self, names: &[&str], into: &mut Initramfs) -> io::Result<Vec<String>> {
        let mut order = Vec::new();
        for name in names {
            self.install_one(name, into, &mut order)?;
        }
        Ok(order)
    }

    fn install_one(&self, name: &str, into: &mut Initramfs, order: &mut Vec<String>) -> io::Result<()> {
        let plain = |name: &str| name.trim_end_matches(".ko").replace('-', "_");
        for path in &self.modules {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if plain(&file) == plain(name) && !order.contains(&file) {
                self.install_file(path, file, into, order)?;
            }
        }
        Ok(())
    }

    fn install_file(
        &self,
        path: &Path,
        file: String,
        into: &mut Initramfs,
        order: &mut Vec<String>,
    ) -> io::Result<()> {
        let content = read(path)?;
        for needed in needs(&content) {
            self.install_one(&needed, into, order)?;
        }
        into.file(format!("/modules/{file}"), &content);
        order.push(file);
        Ok(())
    }
}

/// Returns the modules on which a module depends.
fn needs(module: &[u8]) -> Vec<String> {
    let mark = b"\0depends=";
    let Some(at) = module.windows(mark.len()).position(|window| window == mark) else { return Vec::new() };
    let words = module[at + mark.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let words = String::from_utf8_lossy(words).into_owned();
    words.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn is_named(path: &Path, prefix: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
}

/// Returns every file below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![directory.to_path_buf()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}
