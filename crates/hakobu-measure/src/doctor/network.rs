//! Reads the TCP settings, and the route toward another machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hakobu_core::host::{HostFacts, KernelName, Tcp};

use super::device::Hardware;
use super::system_root::SystemRoot;

/// Unassigned addresses. The route to them is the default route.
const ELSEWHERE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

pub(super) fn read(
    root: &SystemRoot<'_>,
    hardware: &dyn Hardware,
    toward: Option<IpAddr>,
    facts: &mut HostFacts,
) {
    facts.kernel = root.text("/proc/sys/kernel/osrelease").as_deref().and_then(version);
    let setting = |name: &str| format!("/proc/sys/net/ipv4/{name}");
    let is_on = |name: &str| root.number::<u32>(&setting(name)).map(|value| value != 0);
    facts.tcp = Tcp {
        receive_buffer_bytes: root.text(&setting("tcp_rmem")).as_deref().and_then(triple),
        send_buffer_bytes: root.text(&setting("tcp_wmem")).as_deref().and_then(triple),
        receive_buffer_grows: is_on("tcp_moderate_rcvbuf"),
        window_share: root.number(&setting("tcp_adv_win_scale")),
        window_scaling: is_on("tcp_window_scaling"),
        selective_acknowledgements: is_on("tcp_sack"),
        timestamps: is_on("tcp_timestamps"),
        congestion_control: KernelName::new(
            root.text(&setting("tcp_congestion_control")).unwrap_or_default(),
        ),
        segments: root.text("/proc/net/snmp").as_deref().and_then(segments),
    };
    if facts.tcp.receive_buffer_bytes.is_none() || facts.tcp.send_buffer_bytes.is_none() {
        facts.unread("/proc/sys/net/ipv4: it does not tell the buffers of TCP");
    }
    facts.way_out = match toward {
        Some(address) => hardware.way_out(address),
        None => ELSEWHERE.iter().find_map(|address| hardware.way_out(*address)),
    };
    if let (Some(address), None) = (toward, &facts.way_out) {
        facts.unread(format!("the way out: the kernel tells of no route to {address}"));
    }
}

/// Parses the version, 6 and 12 of `6.12.3-arch`.
fn version(release: &str) -> Option<(u16, u16)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn triple(text: &str) -> Option<[u64; 3]> {
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// Returns the TCP counters of sent and of retransmitted segments.
fn segments(text: &str) -> Option<(u64, u64)> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| {
        let mut pairs = names.split(' ').zip(values.split(' '));
        pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    Some((value("OutSegs")?, value("RetransSegs")?))
}

#[cfg(test)]
mod tests {
    use super::super::system_root::recorded::facts;

    #[test]
    fn where_there_is_no_way_that_is_noted() {
        let none = facts(&[], Some("192.0.2.1"));
        assert!(
            none.way_out.is_none() && none.unread.iter().any(|words| words.contains("no route to 192.0.2.1"))
        );
    }

    #[test]
    fn settings_are_read_and_nonsense_is_not() {
        let found = facts(
            &[
                ("proc/sys/kernel/osrelease", "6.12.3-arch1-1\n"),
                ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t1048576\n"),
                ("proc/sys/net/ipv4/tcp_wmem", "4096 16384\n"),
                ("proc/sys/net/ipv4/tcp_adv_win_scale", "-2\n"),
                ("proc/sys/net/ipv4/tcp_window_scaling", "0\n"),
                ("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n"),
                ("proc/net/snmp", "Tcp: InSegs OutSegs RetransSegs\nTcp: 9 1000 7\nUdp: a\n"),
            ],
            None,
        );
        assert_eq!((found.kernel, found.tcp.window_share), (Some((6, 12)), Some(-2)));
        assert_eq!(found.tcp.receive_buffer_bytes, Some([4096, 131_072, 1 << 20]));
        assert_eq!((found.tcp.send_buffer_bytes, found.tcp.timestamps), (None, None));
        assert_eq!((found.tcp.window_scaling, found.tcp.segments), (Some(false), Some((1000, 7))));
        assert!(found.tcp.congestion_control.is("bbr"));
        assert!(found.unread[0].contains("buffers of TCP"), "{:?}", found.unread);
    }
}
