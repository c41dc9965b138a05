//! The settings of TCP, and the way out toward another machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hakobu_core::host::{HostFacts, Name, Tcp, WayOut};

use super::root::Root;

/// A route that is up, of `linux/route.h`; so is the next.
const IS_UP: u32 = 1;
const HAS_GATEWAY: u32 = 2;
const IS_REJECTED: u32 = 0x200;

/// Addresses of nobody: the way to them is the one to all the world.
const ELSEWHERE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

pub(super) fn read(root: &Root<'_>, toward: Option<IpAddr>, facts: &mut HostFacts) {
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
        congestion_control: Name::new(root.text(&setting("tcp_congestion_control")).unwrap_or_default()),
        segments: root.text("/proc/net/snmp").as_deref().and_then(segments),
    };
    if facts.tcp.receive_buffer_bytes.is_none() || facts.tcp.send_buffer_bytes.is_none() {
        facts.unread("/proc/sys/net/ipv4: it does not tell the buffers of TCP");
    }
    facts.way_out = match toward {
        Some(address) => way_out(root, address),
        None => ELSEWHERE.iter().find_map(|address| way_out(root, *address)),
    };
    if let (Some(address), None) = (toward, &facts.way_out) {
        facts.unread(format!("/proc/net: it has no route to {address}"));
    }
}

/// 6 and 12 of `6.12.3-arch`.
fn version(release: &str) -> Option<(u16, u16)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn triple(text: &str) -> Option<[u64; 3]> {
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// The counters of TCP: what was sent, and what of it again.
fn segments(text: &str) -> Option<(u64, u64)> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| {
        let mut pairs = names.split(' ').zip(values.split(' '));
        pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    Some((value("OutSegs")?, value("RetransSegs")?))
}

/// The route with the longest prefix, of those the one that costs least. Rules that choose among tables are not known.
fn way_out(root: &Root<'_>, toward: IpAddr) -> Option<WayOut> {
    let routes: Vec<Route> = match toward.to_canonical() {
        IpAddr::V4(address) => {
            let text = root.text("/proc/net/route")?;
            text.lines().filter_map(|line| v4(line, address)).collect()
        }
        IpAddr::V6(address) => {
            let text = root.text("/proc/net/ipv6_route")?;
            text.lines().filter_map(|line| v6(line, address)).collect()
        }
    };
    let best = routes.into_iter().min_by_key(|route| (128 - route.prefix, route.metric))?;
    Some(WayOut { device: Name::from(best.device.as_str()), routed: best.routed })
}

struct Route {
    prefix: u32,
    metric: u32,
    device: String,
    routed: bool,
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, addresses in hexadecimal as they lie in memory.
fn v4(line: &str, toward: Ipv4Addr) -> Option<Route> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [device, destination, _, flags, _, _, metric, mask, ..] = words[..] else { return None };
    let word = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::from_le);
    let in_order = |text: &str| word(text).map(|address| u32::from_be_bytes(address.to_le_bytes()));
    let (destination, mask, flags) =
        (in_order(destination)?, in_order(mask)?, u32::from_str_radix(flags, 16).ok()?);
    let fits = u32::from(toward) & mask == destination;
    is_usable(flags, fits).then(|| Route {
        prefix: mask.count_ones(),
        metric: metric.parse().unwrap_or(u32::MAX),
        device: device.to_owned(),
        routed: flags & HAS_GATEWAY != 0,
    })
}

/// `destination prefix source prefix gateway metric references use flags device`, all but the last in hexadecimal.
fn v6(line: &str, toward: Ipv6Addr) -> Option<Route> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [destination, prefix, _, _, _, metric, _, _, flags, device] = words[..] else { return None };
    let (prefix, flags) = (u32::from_str_radix(prefix, 16).ok()?, u32::from_str_radix(flags, 16).ok()?);
    let destination = u128::from_str_radix(destination, 16).ok()?;
    let mask = u128::MAX.checked_shl(128_u32.checked_sub(prefix)?).unwrap_or(0);
    let fits = u128::from(toward) & mask == destination & mask;
    is_usable(flags, fits).then(|| Route {
        prefix,
        metric: u32::from_str_radix(metric, 16).unwrap_or(u32::MAX),
        device: device.to_owned(),
        routed: flags & HAS_GATEWAY != 0,
    })
}

fn is_usable(flags: u32, fits: bool) -> bool {
    fits && flags & IS_UP != 0 && flags & IS_REJECTED == 0
}

#[cfg(test)]
mod tests {
    use super::super::root::recorded::facts;

    const ROUTES: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
wlan0\t00000000\t0100A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0
bad\t0000000A\t00000000\t0201\t0\t0\t0\t0000FFFF\t0\t0\t0
short\t1";
    const ROUTES_6: &str = "\
fd000000000000000000000000000000 08 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth1
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo";

    #[test]
    fn the_way_out_is_that_of_the_longest_prefix() {
        let files = [("proc/net/route", ROUTES), ("proc/net/ipv6_route", ROUTES_6)];
        let way =
            |toward: &str| facts(&files, Some(toward)).way_out.map(|way| (way.device.shown(), way.routed));
        assert_eq!(way("192.0.2.1"), Some(("eth0".to_owned(), true)));
        assert_eq!(way("10.1.2.3"), Some(("eth1".to_owned(), false)));
        assert_eq!(way("::ffff:10.1.2.3"), Some(("eth1".to_owned(), false)));
        assert_eq!(way("fd00::1"), Some(("eth1".to_owned(), false)));
        assert_eq!(way("2001:db8::1"), Some(("eth0".to_owned(), true)));
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
