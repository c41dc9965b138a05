//! `cargo xtask ui`: builds the page of the control plane, which the next build of the program embeds, and tests it.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

/// The folder of the page, relative to the workspace.
const FOLDER: &str = "ui";
/// The OpenAPI document that the page's types are made from, relative to the workspace.
const DOCUMENT: &str = "docs/api/openapi.json";
/// The types that are made from it, relative to the folder of the page.
const TYPES: &str = "src/api/schema.d.ts";

/// Build the page of the control plane into ui/dist, from where the program embeds it
#[derive(Debug, Args)]
pub struct UiArgs {
    /// Build the program with the page as well: target/release/hakobu
    #[arg(long)]
    program: bool,
    /// Test the page as well, in Chromium, with this workspace's program
    #[arg(long)]
    test: bool,
    /// Make the book's pictures of all pages, in both languages
    #[arg(long)]
    pictures: bool,
    /// Make the types of the API's calls anew, after a change of docs/api/openapi.json
    #[arg(long)]
    types: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// Node.js is missing, or a step fails.
pub fn run(args: &UiArgs) -> Result<()> {
    let workspace = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    let ui = workspace.join(FOLDER);
    install(&ui)?;
    if args.types {
        fs::write(ui.join(TYPES), types(&workspace)?)?;
    }
    if args.test {
        step(&ui, "svelte-check", &["--tsconfig", "./tsconfig.json", "--fail-on-warnings"])?;
    }
    build(&workspace)?;
    println!("{}", ui.join("dist").display());
    if args.program {
        cargo(&workspace, &["build", "--locked", "--release", "--bin", "hakobu"])?;
    }
    if args.test || args.pictures {
        build_program(&workspace)?;
    }
    if args.test {
        step(&ui, "playwright", &["test", "--project=tests"])?;
    }
    if args.pictures {
        // The run with a million failures is for tests alone, and the paths in pictures are short.
        let folder = env::temp_dir().join("fleet");
        ensure!(!folder.exists(), "{} is in the way of the pictures", folder.display());
        let mut playwright = tool(&ui, "playwright");
        playwright.args(["test", "--project=pictures"]).env("HAKOBU_UI_FAILURES", "0");
        playwright.env("HAKOBU_UI_FOLDER", folder);
        finish(playwright, "playwright")?;
    }
    Ok(())
}

/// Builds the page.
///
/// # Errors
/// Node.js is missing, the types are not those of the API, or the build fails.
pub fn build(workspace: &Path) -> Result<()> {
    let ui = workspace.join(FOLDER);
    install(&ui)?;
    if fs::read(ui.join(TYPES)).unwrap_or_default() != types(workspace)? {
        bail!("{DOCUMENT} has changed: cargo xtask ui --types makes {FOLDER}/{TYPES} anew");
    }
    step(&ui, "vite", &["build", "--logLevel", "warn"])
}

/// Returns the types of the API's calls.
fn types(workspace: &Path) -> Result<Vec<u8>> {
    let mut tool = tool(&workspace.join(FOLDER), "openapi-typescript");
    let types = tool.arg(workspace.join(DOCUMENT)).output().context("running openapi-typescript")?;
    ensure!(types.status.success(), "openapi-typescript: {}", String::from_utf8_lossy(&types.stderr));
    Ok(types.stdout)
}

/// Installs the page's tools, unless those of the lock file are there.
fn install(ui: &Path) -> Result<()> {
    let lock = fs::read(ui.join("package-lock.json")).context("reading package-lock.json")?;
    let note = ui.join("node_modules/.hakobu-lock");
    if fs::read(&note).is_ok_and(|known| known == lock) {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--loglevel", "error"]).current_dir(ui);
    let status = npm
        .status()
        .context("running npm: Node.js 20.19 or later and npm build the page (apt install nodejs npm)")?;
    ensure!(status.success(), "npm ci: {status}");
    Ok(fs::write(note, lock)?)
}

/// Returns a command that runs a tool of the page, in its folder.
fn tool(ui: &Path, name: &str) -> Command {
    let mut tool = Command::new(ui.join("node_modules/.bin").join(name));
    tool.current_dir(ui);
    tool
}

fn step(ui: &Path, name: &str, arguments: &[&str]) -> Result<()> {
    let mut tool = tool(ui, name);
    tool.args(arguments);
    finish(tool, name)
}

fn finish(mut tool: Command, name: &str) -> Result<()> {
    let status = tool.status().with_context(|| format!("running {name}"))?;
    ensure!(status.success(), "{name}: {status}");
    Ok(())
}

/// Builds the program with the page, and the one that fills a ledger for tests: both as the tests of the workspace do, so that
/// libraries are built once.
fn build_program(workspace: &Path) -> Result<()> {
    cargo(workspace, &["build", "--locked", "--workspace", "--bin", "hakobu", "--example", "fill_ledger"])
}

fn cargo(workspace: &Path, arguments: &[&str]) -> Result<()> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(arguments).current_dir(workspace);
    finish(cargo, "cargo build")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct UiCommand {
        #[command(flatten)]
        args: UiArgs,
    }

    #[test]
    fn the_command_that_stands_in_place_of_the_page_is_one_of_these() {
        let page = include_str!("../../crates/hakobu-fleet/src/api/page_files.rs");
        let command = page.split("<code>cargo xtask ").nth(1).and_then(|rest| rest.split("</code>").next());
        let words = command.expect("a command").split(' ');
        assert!(UiCommand::try_parse_from(words).is_ok_and(|typed| typed.args.program), "{command:?}");
    }
}
