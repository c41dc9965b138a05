//! Finds listening sockets without connecting to them, since many tools serve only the first connection.

use std::fs;

/// Returns true if anything listens on this TCP port in the network namespace of a process.
#[must_use]
pub fn listens(pid: u32, port: u16) -> bool {
    let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/{pid}/net/{name}")));
    tables.into_iter().flatten().any(|table| is_listening(&table, port))
}

/// Searches a table of `/proc/net`. The second field of a line is the address with the port, the fourth the state.
fn is_listening(table: &str, port: u16) -> bool {
    let at = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        fields.next().is_some_and(|address| address.ends_with(&at)) && fields.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_listened_on_is_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens(std::process::id(), port));
        drop(listener);
        // A child process of another test may hold it for a moment.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while listens(std::process::id(), port) {
            assert!(std::time::Instant::now() < deadline, "{port}");
        }
        let table = "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 01 0:0\n";
        assert!(!is_listening(table, 8080) && is_listening(&table.replace(" 01 ", " 0A "), 8080));
    }
}
