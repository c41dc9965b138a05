//! `cargo xtask articles`: runs `hakobu bench` over a throw-away sshd and writes its figures beside those of the articles.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hakobu_measure::bench::case::{Case, Compressor, Content, Direction, Ends, Starter, Way};
use hakobu_measure::table::MarkdownTable;
use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::{Sshd, SshdOptions};
use serde_json::Value;

const PAGE: &str = "docs/book/the-articles-tables-today.md";
/// Between these two lines of the page the tables are written anew.
const BEGIN: &str = "<!-- written by cargo xtask articles -->";
const END: &str = "<!-- end -->";
const RTT: Duration = Duration::from_micros(250);
const RATE_BITS: u64 = 1_000_000_000;

/// Measure the articles' tables on this machine and write them into the book (takes root)
#[derive(Debug, Args)]
pub struct ArticlesArgs {
    /// The program to measure, which must be a release build
    #[arg(long, default_value = "target/release/hakobu")]
    pub program: PathBuf,
    /// How long each of the two benches takes
    #[arg(long, default_value = "20m")]
    pub time_budget: String,
    /// Where the figures are kept, as JSON
    #[arg(long, default_value = "docs/benchmarks")]
    pub figures: PathBuf,
    /// Measure nothing, and write the page from figures that are there
    #[arg(long)]
    pub page_only: bool,
    /// What else the machine did meanwhile, for the page: only you know
    #[arg(long)]
    pub note: String,
}

/// Runs the subcommand.
///
/// # Errors
/// When a bench fails, or figures or page cannot be read or written.
pub fn run(args: &ArticlesArgs) -> Result<()> {
    let files = ["loopback", "1gbit"].map(|name| args.figures.join(format!("articles-{name}.json")));
    if !args.page_only {
        let program = args.program.canonicalize().with_context(|| args.program.display().to_string())?;
        fs::write(&files[0], measure(&program, &args.time_budget, None)?)?;
        let link =
            Link::up(LinkSettings { rate_bits_per_second: Some(RATE_BITS), ..LinkSettings::with_rtt(RTT) })?;
        fs::write(&files[1], measure(&program, &args.time_budget, Some(&link))?)?;
    }
    let [loopback, link] = files.map(|file| -> Result<Value> {
        Ok(serde_json::from_slice(&fs::read(&file).with_context(|| file.display().to_string())?)?)
    });
    let written = tables(&Figures(loopback?), &Figures(link?), &args.note)?;
    let page = fs::read_to_string(PAGE).context(PAGE)?;
    fs::write(PAGE, replaced(&page, &written)?).context(PAGE)
}

/// One bench, from here to a server of its own, which can log in here as well.
fn measure(program: &Path, budget: &str, link: Option<&Link>) -> Result<Vec<u8>> {
    let tools = std::env::temp_dir().join(format!("hakobu-articles.{}", std::process::id()));
    fs::create_dir_all(&tools)?;
    let sshd = Sshd::start(&SshdOptions {
        path_dirs: vec![tools.clone()],
        address: link.map_or_else(|| SshdOptions::default().address, |link| IpAddr::V4(link.far().address())),
        netns: link.map(|link| link.far().name().to_owned()),
        ..SshdOptions::default()
    })?;
    // The way back is a login on a server at this end; on loopback on the same one.
    let back = link.map(|link| {
        let address = IpAddr::V4(link.near().address());
        Sshd::start(&SshdOptions {
            address,
            netns: Some(link.near().name().to_owned()),
            ..SshdOptions::default()
        })
    });
    let back = back.transpose()?;
    let config = back.as_ref().unwrap_or(&sshd).client_config();
    script(&tools.join("ssh"), &format!("exec /usr/bin/ssh -F {} \"$@\"", config.display()))?;
    script(&tools.join("scp"), &format!("exec /usr/bin/scp -S {} \"$@\"", tools.join("ssh").display()))?;
    let mut command = match link {
        Some(link) => link.near().command(program),
        None => Command::new(program),
    };
    command.args(["bench", "throwaway", "--full", "--json", "--back", "throwaway", "--time-budget", budget]);
    let output = command.env("HAKOBU_SSH", sshd.ssh_command()).stderr(Stdio::inherit()).output()?;
    fs::remove_dir_all(&tools)?;
    ensure!(matches!(output.status.code(), Some(0 | 3)), "hakobu bench: {}", output.status);
    Ok(output.stdout)
}

fn script(path: &Path, line: &str) -> Result<()> {
    fs::write(path, format!("#!/bin/sh\n{line}\n"))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// What a bench has written.
struct Figures(Value);

impl Figures {
    /// The figure of a case, as a cell.
    fn cell(&self, wanted: &Case) -> String {
        let rows = self.0["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_it = |row: &&Value| {
            serde_json::from_value::<Case>(row["case"].clone()).is_ok_and(|case| case == *wanted)
        };
        match rows.iter().find(is_it) {
            Some(row) if !row["failed"].is_null() => "failed".to_owned(),
            Some(row) => row["bytes_per_second"]
                .as_f64()
                .map_or("too short".to_owned(), |rate| format!("{:.0}", rate / 1e6)),
            None => "–".to_owned(),
        }
    }
}

type Line = (&'static str, &'static str, Case);

fn tables(loopback: &Figures, link: &Figures, note: &str) -> Result<String> {
    let machine = &loopback.0["machines"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let date = text(&loopback.0["ended_at"]).split('T').next().unwrap_or_default().to_owned();
    let rounds = [loopback, link].map(|figures| figures.0["rounds"].as_u64().unwrap_or(0));
    let mut page = format!(
        "Made on {date} by `cargo xtask articles` on {}, {} processors, {}, which are shared by both ends and the link; {note}. \
         Rounds: {} on loopback, {} over a link of 1 Gbit/s and 0.25 ms. All figures are MB/s; – is what there was no time or tool for. \
         The figures in full, with the processor time of every process and the command lines, are in \
         [articles-loopback.json](../benchmarks/articles-loopback.json) and [articles-1gbit.json](../benchmarks/articles-1gbit.json).\n",
        text(&machine["processor"]),
        machine["processors"].as_u64().unwrap_or(0),
        text(&machine["kernel"]),
        rounds[0],
        rounds[1]
    );
    for (title, lines) in [
        ("Article 1: a disk over 25 Gbit/s, random data", first()),
        ("Article 2: scp between two clusters over 10 Gbit/s, who starts and whither", second()),
        ("Article 3: rsync", third()),
        ("Article 5: scp over 1 Gbit/s", fifth()),
    ] {
        let mut table = MarkdownTable::new(["way", "the article", "here, loopback", "here, 1 Gbit/s"]);
        for (label, article, case) in lines {
            table.push([label.to_owned(), article.to_owned(), loopback.cell(&case), link.cell(&case)]);
        }
        page.push_str(&format!("\n### {title}\n\n{table}"));
    }
    let mut why = Vec::new();
    for (name, figures) in [("loopback", loopback), ("1 Gbit/s", link)] {
        let found = figures.0["asymmetries"].as_array().map(Vec::as_slice).unwrap_or_default();
        why.extend(found.iter().take(5).map(|one| format!("- {name}: {}\n", text(&one["words"]))));
    }
    if !why.is_empty() {
        page.push_str(&format!("\n### What bench says of asymmetries\n\n{}", why.concat()));
    }
    Ok(page)
}

fn to(way: Way) -> Case {
    Case { ends: Ends::MemoryToNothing, ..Case::plain(way, Direction::ToHost) }
}

fn cipher(way: Way, name: &str) -> Case {
    Case { cipher: Some(name.to_owned()), ..to(way) }
}

/// Rates of disk to disk over there, of memory to nothing here.
fn first() -> Vec<Line> {
    let blocks = |block_bytes| Case { block_bytes, ..to(Way::Dd) };
    let packed = |way, compressor| Case { compressor, ..to(way) };
    vec![
        ("dd, ssh, blocks of 512", "118", blocks(512)),
        ("4k", "363", blocks(4 << 10)),
        ("32k", "371", blocks(32 << 10)),
        ("64k", "385", blocks(64 << 10)),
        ("512k", "324", blocks(512 << 10)),
        ("4M", "330", blocks(4 << 20)),
        ("nc", "160", to(Way::Nc)),
        ("gzip, ssh", "24", packed(Way::Dd, Compressor::Gzip)),
        ("gzip, nc", "28", packed(Way::Nc, Compressor::Gzip)),
        ("lzop, ssh", "160", packed(Way::Dd, Compressor::Lzop)),
        ("lzop, nc", "277", packed(Way::Nc, Compressor::Lzop)),
        ("pigz, ssh", "163", packed(Way::Dd, Compressor::Pigz)),
        ("pigz, nc", "397", packed(Way::Nc, Compressor::Pigz)),
        ("zstd, ssh", "", packed(Way::Dd, Compressor::Zstd)),
        ("aes128-ctr", "538", cipher(Way::Dd, "aes128-ctr")),
        ("aes192-ctr", "610", cipher(Way::Dd, "aes192-ctr")),
        ("aes256-ctr", "609", cipher(Way::Dd, "aes256-ctr")),
        ("aes128-gcm", "632", cipher(Way::Dd, "aes128-gcm@openssh.com")),
        ("aes256-gcm", "642", cipher(Way::Dd, "aes256-gcm@openssh.com")),
        ("chacha20-poly1305", "402", cipher(Way::Dd, "chacha20-poly1305@openssh.com")),
        ("mbuffer", "", to(Way::Mbuffer)),
        ("**hakobu**", "", to(Way::Hakobu)),
    ]
}

fn second() -> Vec<Line> {
    let case = |way, direction, starter| Case { starter, ..Case::plain(way, direction) };
    let (to_host, from_host) = (Direction::ToHost, Direction::FromHost);
    vec![
        ("one scp, to the host, started here", "about 230", case(Way::Scp, to_host, Starter::Here)),
        ("from the host, started here", "half, by one host's sshd", case(Way::Scp, from_host, Starter::Here)),
        ("to the host, started there", "", case(Way::Scp, to_host, Starter::There)),
        ("from the host, started there", "", case(Way::Scp, from_host, Starter::There)),
        ("12 scp at once", "about 1 260", case(Way::Nc, Direction::Here, Starter::Here)),
        ("**hakobu**, to the host, started here", "", case(Way::Hakobu, to_host, Starter::Here)),
        ("**hakobu**, from the host, started here", "", case(Way::Hakobu, from_host, Starter::Here)),
        ("**hakobu**, to the host, started there", "", case(Way::Hakobu, to_host, Starter::There)),
        ("**hakobu**, from the host, started there", "", case(Way::Hakobu, from_host, Starter::There)),
    ]
}

fn third() -> Vec<Line> {
    let memory = |way| Case { ends: Ends::MemoryToMemory, ..to(way) };
    let disk = |way| Case { ends: Ends::DiskToDisk, ..to(way) };
    vec![
        ("one rsync (to a daemon there, over ssh here), memory", "16", memory(Way::Rsync)),
        ("the same, disk", "", disk(Way::Rsync)),
        ("parsyncfp over 48 connections", "146", Case::plain(Way::Nc, Direction::Here)),
        ("**hakobu**, memory", "", memory(Way::Hakobu)),
        ("**hakobu**, disk", "", disk(Way::Hakobu)),
    ]
}

fn fifth() -> Vec<Line> {
    let content = |content, compressor| Case { content, compressor, ..to(Way::Scp) };
    vec![
        ("scp, aes128-cbc", "36.6", cipher(Way::Scp, "aes128-cbc")),
        ("3des", "11.5", cipher(Way::Scp, "3des-cbc")),
        ("blowfish", "41.7", cipher(Way::Scp, "blowfish-cbc")),
        ("arcfour128, arcfour256", "83.3", cipher(Way::Scp, "arcfour128")),
        ("aes256-ctr", "25.9", cipher(Way::Scp, "aes256-ctr")),
        ("aes256-gcm", "", cipher(Way::Scp, "aes256-gcm@openssh.com")),
        ("chacha20-poly1305", "", cipher(Way::Scp, "chacha20-poly1305@openssh.com")),
        ("scp -C, text", "41 to 44", content(Content::Text, Compressor::Ssh)),
        ("scp, text", "35 to 78", content(Content::Text, Compressor::None)),
        ("scp -C, gzip'd", "2 to 8 times as slow", content(Content::Gzipped, Compressor::Ssh)),
        ("scp, gzip'd", "", content(Content::Gzipped, Compressor::None)),
        ("**hakobu**, text", "", Case { content: Content::Text, ..to(Way::Hakobu) }),
        ("**hakobu**, gzip'd", "", Case { content: Content::Gzipped, ..to(Way::Hakobu) }),
    ]
}

/// The page with new tables.
fn replaced(page: &str, tables: &str) -> Result<String> {
    let Some((before, rest)) = page.split_once(BEGIN) else { bail!("{PAGE} has no line {BEGIN}") };
    let Some((_, after)) = rest.split_once(END) else { bail!("{PAGE} has no line {END}") };
    Ok(format!("{before}{BEGIN}\n\n{tables}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(rows: &Value) -> Figures {
        Figures(serde_json::json!({
            "ended_at": "2026-11-23T12:00:00Z", "rounds": 3, "rows": rows,
            "machines": [{ "processor": "P", "processors": 2, "kernel": "Linux" }],
            "asymmetries": [{ "words": "dd is slow" }],
        }))
    }

    #[test]
    fn figures_stand_beside_those_of_the_articles() {
        let case = serde_json::to_value(Case { block_bytes: 512, ..to(Way::Dd) }).unwrap();
        let nc = serde_json::to_value(to(Way::Nc)).unwrap();
        let rows = serde_json::json!([
            { "case": case, "bytes_per_second": 123_400_000.0, "failed": null },
            { "case": nc, "bytes_per_second": null, "failed": "no" },
        ]);
        let page = tables(&figures(&rows), &figures(&serde_json::json!([])), "quiet").unwrap();
        let line = |begin: &str| page.lines().find(|line| line.starts_with(begin)).unwrap().replace(' ', "");
        assert_eq!(line("| dd, ssh, blocks of 512"), "|dd,ssh,blocksof512|118|123|–|");
        assert_eq!(line("| nc "), "|nc|160|failed|–|");
        assert!(page.contains("Made on 2026-11-23") && page.contains("- loopback: dd is slow"));
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(replaced(&page, "new").unwrap(), format!("a\n{BEGIN}\n\nnew\n{END}\nb\n"));
        assert!(replaced("a", "new").is_err());
    }
}
