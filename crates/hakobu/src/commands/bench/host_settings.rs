//! The settings from files that apply to the runs of hakobu in a bench.
//!
//! A bench compares machines and transports. Settings that are needed to reach the host apply; settings that limit hakobu or
//! fix a value that it would determine itself do not. The results list both.

use hakobu_core::path::lossy;
use serde::Serialize;

use crate::commands::bench::arguments::BenchArguments;
use crate::settings_file::{self, FromFile};

/// Options that may be needed to reach the host.
const OF_THE_WAY: [&str; 3] = ["data-address", "data-port", "transport"];
/// Options that `bench` has itself, so that they are among its arguments already.
const OF_BENCH: [&str; 2] = ["ssh", "agent"];

/// A setting and its origin.
#[derive(Debug, Serialize)]
struct SettingOrigin {
    keyword: &'static str,
    value: String,
    place: String,
}

/// The settings from files that match the host.
#[derive(Debug, Default, Serialize)]
pub struct BenchHostSettings {
    obeyed: Vec<SettingOrigin>,
    not_obeyed: Vec<SettingOrigin>,
}

impl BenchHostSettings {
    /// Sorts the settings from files. Typed options override them and have no file as origin.
    pub fn new(typed: &BenchArguments, found: Vec<FromFile>) -> Self {
        let mut held = Self::default();
        for FromFile { keyword, value, place } in found {
            let is_of_bench = OF_BENCH.contains(&keyword);
            let taken = match keyword {
                "ssh" => typed.ssh.as_deref().is_some_and(|ssh| ssh == value.as_str()),
                "agent" => typed.agent.as_deref().is_some_and(|agent| agent == std::path::Path::new(&value)),
                _ => OF_THE_WAY.contains(&keyword),
            };
            match (taken, is_of_bench) {
                (true, _) => held.obeyed.push(SettingOrigin { keyword, value, place }),
                (false, true) => {}
                (false, false) => held.not_obeyed.push(SettingOrigin { keyword, value, place }),
            }
        }
        held
    }

    /// Returns the content of the settings file for hakobu's own rows.
    pub fn of_rows(&self) -> String {
        let rows = self.obeyed.iter().filter(|said| OF_THE_WAY.contains(&said.keyword));
        // A JSON string is also a TOML string.
        rows.map(|said| format!("{} = {}\n", said.keyword, serde_json::Value::from(said.value.as_str())))
            .collect()
    }

    /// Describes the settings, a sentence for each group.
    pub fn words(&self) -> Vec<String> {
        let list = |all: &[SettingOrigin]| {
            let one = |said: &SettingOrigin| format!("{} {} ({})", said.keyword, said.value, said.place);
            lossy(all.iter().map(one).collect::<Vec<_>>().join(", ").as_bytes())
        };
        let mut words = Vec::new();
        if !self.obeyed.is_empty() {
            words.push(format!("From settings files: {}.", list(&self.obeyed)));
        }
        if !self.not_obeyed.is_empty() {
            words.push(format!(
                "hakobu's rows ignore these settings, which a copy obeys and which may make it slower: {}.",
                list(&self.not_obeyed)
            ));
        }
        words
    }
}

/// Returns the settings from files.
///
/// # Errors
/// As [`settings_file::settle`].
pub fn held(
    typed: &BenchArguments,
    host: Option<&str>,
) -> Result<BenchHostSettings, Vec<hakobu_core::error::Error>> {
    settings_file::of_way(host, typed.settings.as_deref()).map(|found| BenchHostSettings::new(typed, found))
}
