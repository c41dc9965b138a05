//! A systemd unit that resumes jobs when the machine starts.

use std::path::Path;

use hakobu_core::error::{Error, Result};
use hakobu_core::path::lossy;

/// Prints the unit.
pub fn unit(user: bool) -> Result<u8> {
    let program = std::env::current_exe().map_err(|error| Error::io("looking for hakobu itself", &error))?;
    Ok(crate::output::print(text(&program, user).as_bytes()))
}

/// Returns the unit. It stays active while its jobs run: at shutdown systemd stops them with it, and they keep what
/// they have done. A job that cannot be resumed must not make the unit fail, because that would stop the others.
fn text(program: &Path, user: bool) -> String {
    let program = quoted(&lossy(program.as_os_str().as_encoded_bytes()));
    // The user's systemd does not know the state of the network. Jobs retry the login until there is one.
    let (network, wanted_by) = match user {
        false => (
            "Wants=network-online.target\nAfter=network-online.target local-fs.target remote-fs.target\n",
            "multi-user",
        ),
        true => ("", "default"),
    };
    format!(
        "[Unit]\n\
         Description=Resume interrupted hakobu jobs\n\
         {network}\n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart=-{program} jobs resume --all\n\
         KillMode=control-group\n\
         TimeoutStopSec=90\n\n\
         [Install]\n\
         WantedBy={wanted_by}.target\n"
    )
}

/// Quotes a word for systemd.
fn quoted(word: &str) -> String {
    let word = word.replace('%', "%%").replace('$', "$$");
    if word.contains([' ', '"', '\'', '\\', ';']) {
        return format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""));
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_one_word_for_systemd() {
        let unit = text(Path::new("/opt/my tools/100%/hakobu"), false);
        assert!(unit.contains("\nExecStart=-\"/opt/my tools/100%%/hakobu\" jobs resume --all\n"), "{unit}");
        assert!(unit.contains("After=network-online.target"));
        let unit = text(Path::new("/usr/bin/hakobu"), true);
        assert!(unit.contains("\nExecStart=-/usr/bin/hakobu jobs resume --all\n"), "{unit}");
        assert!(unit.contains("WantedBy=default.target") && !unit.contains("network-online"), "{unit}");
    }
}
