//! The output of `hakobu --version`: the details needed when two programs cannot talk to each other, or one misbehaves.

use hakobu_proto::control::{VERSION_NEWEST, VERSION_OLDEST};

/// The version, commit, protocol and features, each on a line of its own.
pub fn long() -> String {
    let protocol = match VERSION_OLDEST == VERSION_NEWEST {
        true => VERSION_NEWEST.to_string(),
        false => format!("{VERSION_OLDEST} to {VERSION_NEWEST}"),
    };
    let mut features = vec!["agent", "ssh", "sftp", "rsync", "tls1.3", "zstd", "blake3", "sha256"];
    // Only such a program can upload itself to other hosts.
    features.push(if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" });
    if cfg!(feature = "planted-faults") {
        features.push("planted-faults");
    }
    format!(
        "{}\ncommit: {}\nprotocol: {protocol}\ntarget: {}\nfeatures: {}",
        env!("CARGO_PKG_VERSION"),
        env!("HAKOBU_BUILT_FROM"),
        env!("HAKOBU_BUILT_FOR"),
        features.join(" ")
    )
}
