//! Tests which advice is given, and which is not.

use std::time::Duration;

use hakobu_core::host::{
    Bond, Capped, HostDisk, HostFacts, HostMount, KernelName, LoginServer, NetworkDevice, Offloads,
    PacketBuffers, Penalties, ProcessLimits, Processors, QueueDiscipline, Tcp, WayOut,
};

use super::*;

const MIB: u64 = 1 << 20;

/// A host with the usual defaults of distributions, whose device speed is unknown.
fn good() -> HostFacts {
    HostFacts {
        kernel: Some((6, 12)),
        tcp: Tcp {
            receive_buffer_bytes: Some([4096, 131_072, 6 * MIB]),
            send_buffer_bytes: Some([4096, 16_384, 4 * MIB]),
            receive_buffer_grows: Some(true),
            window_share: Some(1),
            window_scaling: Some(true),
            selective_acknowledgements: Some(true),
            timestamps: Some(true),
            congestion_control: "cubic".into(),
            segments: Some((10_000_000, 20_000)),
        },
        devices: vec![device("eth0", None)],
        way_out: Some(WayOut { device: "eth0".into(), routed: true }),
        processors: vec![Processors {
            count: 8,
            governor: "powersave".into(),
            driver: "intel_pstate".into(),
            lowest_khz: 800_000,
            highest_khz: 3_600_000,
            hardware_khz: 3_600_000,
        }],
        disks: vec![
            HostDisk { name: "sda".into(), rotational: true, scheduler: "bfq".into(), numa_node: None },
            HostDisk { name: "nvme0n1".into(), scheduler: "none".into(), ..HostDisk::default() },
        ],
        limits: ProcessLimits {
            open_files: (Capped::At(1024), Capped::At(524_288)),
            file_bytes: Capped::Unlimited,
            processor_seconds: Capped::Unlimited,
            address_space_bytes: Capped::Unlimited,
        },
        login_server: Some(LoginServer::default()),
        mounts: vec![
            mount("/", "ext4", "rw,relatime"),
            mount("/srv", "nfs4", "rw,wsize=1048576,rsize=1048576"),
        ],
        unread: Vec::new(),
    }
}

fn device(name: &str, gigabits: Option<u64>) -> NetworkDevice {
    NetworkDevice {
        name: name.into(),
        up: true,
        hardware: true,
        speed_bits_per_second: gigabits.map(|speed| speed * 1_000_000_000),
        full_duplex: Some(true),
        mtu_bytes: 1500,
        received_packets: 1_000_000,
        missed_packets: 0,
        offloads: Some(Offloads {
            segmentation: true,
            late_segmentation: true,
            receive_joining: true,
            send_checksums: true,
            receive_checksums: true,
        }),
        receive_ring: Some(PacketBuffers { packets: 512, packets_max: 4096 }),
        ..NetworkDevice::default()
    }
}

fn mount(path: &str, kind: &str, options: &str) -> HostMount {
    HostMount { path: path.into(), kind: kind.into(), options: options.into() }
}

fn way(round_trip_ms: u64, lanes: u16) -> NetworkPath {
    NetworkPath {
        round_trip: Duration::from_millis(round_trip_ms),
        measured: true,
        capacity_bytes_per_second: None,
        lanes,
    }
}

/// Returns the findings for this host, alone and with a good host at either end, after checking that they are the
/// same.
#[track_caller]
fn advised(facts: &HostFacts, way: &NetworkPath, ids: &[&str]) -> Vec<Finding> {
    let found = advise(facts, Some(&good()), way);
    let names: Vec<_> = found.iter().map(|finding| finding.id).collect();
    assert_eq!(names, ids, "{found:#?}");
    assert!(found.iter().all(|finding| finding.whose == FindingHost::Here), "{found:#?}");
    found
}

fn near(rate: f64, wanted: f64) -> bool {
    (rate / wanted - 1.0).abs() < 0.01
}

#[test]
fn a_host_that_is_right_gets_no_advice() {
    let host = good();
    for (round_trip_ms, lanes) in [(0, 4), (1, 8), (20, 10), (100, 10), (300, 10)] {
        assert_eq!(advise(&host, Some(&host), &way(round_trip_ms, lanes)), []);
    }
    assert_eq!(advise(&host, None, &NetworkPath::assumed(10)), []);
    // A fast device alone is no reason for findings either, if the network path is unknown.
    let fast = HostFacts { devices: vec![device("eth0", Some(25))], ..good() };
    assert_eq!(advise(&fast, None, &NetworkPath::assumed(10)), []);
    assert_eq!(advise(&fast, Some(&fast), &way(1, 8)), []);
    // Neither is a host without any facts.
    assert_eq!(advise(&HostFacts::default(), Some(&HostFacts::default()), &way(100, 10)), []);
}

#[test]
fn a_small_receive_buffer_holds_a_long_way() {
    let mut host = good();
    host.tcp.receive_buffer_bytes = Some([4096, 131_072, MIB]);
    let found = advised(&host, &way(100, 10), &["tcp-receive-buffer-small"]);
    let expected = found[0].expected.unwrap();
    let (one, all) = (expected.connection.unwrap(), expected.hakobu.unwrap());
    assert!(
        near(one.before, 1_048_576.0 * 0.62 / 0.1) && near(all.before, one.before * 10.0),
        "{expected:?}"
    );
    // The send buffer of the other end is the next limit.
    assert!(near(one.after.unwrap(), 4_194_304.0 * 0.75 / 0.1), "{expected:?}");
    assert_eq!(found[0].command, "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 6291456\"");
    // It does not matter on a short network path.
    advised(&host, &way(1, 8), &[]);
    // The result for the other host, in the opposite direction.
    let found = advise(&good(), Some(&host), &way(100, 10));
    assert_eq!((found.len(), found[0].whose), (1, FindingHost::There));
    assert!(found[0].why.contains("to the other machine"), "{}", found[0].why);
    // Without another host, it is reported for a long network path.
    let found = advise(&host, None, &NetworkPath::assumed(10));
    assert!(found.len() == 1 && found[0].why.contains("on a way of 100 ms"), "{found:?}");
}

#[test]
fn the_share_of_a_buffer_is_that_of_the_kernel() {
    let share = |kernel, scale| {
        let tcp = Tcp { window_share: Some(scale), ..Tcp::default() };
        window::receive_share(&HostFacts { kernel, tcp, ..HostFacts::default() })
    };
    assert_eq!(share(Some((6, 6)), 2), 0.62);
    assert_eq!(share(None, 2), 0.62);
    for (scale, wanted) in [(1, 0.5), (2, 0.75), (0, 1.0), (-2, 0.25), (-128, 0.5_f64.powi(31))] {
        assert_eq!(share(Some((5, 15)), scale), wanted);
    }
}

#[test]
fn without_scaling_a_round_trip_carries_64_kilobytes() {
    let mut host = good();
    host.tcp.window_scaling = Some(false);
    let found = advised(&host, &way(4, 2), &["tcp-window-scaling-off"]);
    let expected = found[0].expected.unwrap();
    assert!(near(expected.connection.unwrap().before, 16_383_750.0), "{expected:?}");
    assert!(near(expected.hakobu.unwrap().before, 32_767_500.0), "{expected:?}");
    // The capacity of the network path limits the gain.
    let measured = NetworkPath { capacity_bytes_per_second: Some(125_000_000), ..way(4, 2) };
    let found = advised(&host, &measured, &["tcp-window-scaling-off"]);
    assert!(near(found[0].expected.unwrap().connection.unwrap().after.unwrap(), 125e6), "{found:?}");
    // If it is off at both ends, both have to be changed.
    assert_eq!(advise(&host, Some(&host), &way(4, 2)).len(), 2);
}

#[test]
fn buffers_that_do_not_grow_and_send_buffers_are_told_as_well() {
    let mut host = good();
    host.tcp.receive_buffer_grows = Some(false);
    host.tcp.send_buffer_bytes = Some([4096, 16_384, 262_144]);
    let found = advised(&host, &way(50, 10), &["tcp-receive-buffer-fixed", "tcp-send-buffer-small"]);
    assert!(
        near(found[0].expected.unwrap().connection.unwrap().before, 131_072.0 * 0.62 / 0.05),
        "{found:?}"
    );
    assert!(
        near(found[1].expected.unwrap().connection.unwrap().before, 262_144.0 * 0.75 / 0.05),
        "{found:?}"
    );
}

#[test]
fn a_fast_and_long_way_takes_more_than_the_usual_buffers() {
    let fast = HostFacts { devices: vec![device("eth0", Some(10))], ..good() };
    let found = advise(&fast, Some(&fast), &way(100, 10));
    let mut ids: Vec<_> =
        found.iter().map(|finding| (finding.id, finding.whose == FindingHost::Here)).collect();
    ids.sort_unstable();
    let of_both = |id| [(id, false), (id, true)];
    assert_eq!(ids, [of_both("tcp-receive-buffer-small"), of_both("tcp-send-buffer-small")].concat());
    assert!(found.iter().all(|finding| finding.command.ends_with(" 67108864\"")), "{found:#?}");
    assert!(near(found[0].expected.unwrap().hakobu.unwrap().after.unwrap(), 1.25e9), "{found:#?}");
    // The measured capacity is lower. The buffers suffice for hakobu, and nothing was lowered.
    let slow = NetworkPath { capacity_bytes_per_second: Some(60_000_000), ..way(100, 10) };
    assert_eq!(advise(&fast, Some(&fast), &slow), []);
}

/// A good host with this queue on its device.
fn behind(queue: QueueDiscipline) -> HostFacts {
    let queues = vec![QueueDiscipline { is_root: true, ..queue }];
    HostFacts { devices: vec![NetworkDevice { queues, ..device("eth0", Some(1)) }], ..good() }
}

#[test]
fn queues_that_hold_or_lose_what_leaves() {
    let tbf = QueueDiscipline {
        kind: "tbf".into(),
        bytes_per_second: Some(12_500_000),
        ..QueueDiscipline::default()
    };
    let found = advised(&behind(tbf.clone()), &way(1, 4), &["queue-shapes"]);
    let change = found[0].expected.unwrap().hakobu.unwrap();
    assert!(
        near(change.before, 12.5e6 * 1448.0 / 1514.0) && near(change.after.unwrap(), 125e6),
        "{change:?}"
    );
    assert_eq!(found[0].command, "tc qdisc del dev eth0 root");
    // A queue that is as fast as the network path, or belongs to another device, limits nothing.
    advised(&behind(QueueDiscipline { bytes_per_second: Some(120_000_000), ..tbf.clone() }), &way(1, 4), &[]);
    let mut other = behind(tbf.clone());
    other.way_out = Some(WayOut { device: "eth1".into(), routed: false });
    advised(&other, &way(1, 4), &[]);
    // The gain is unknown if no device reports its speed.
    let mut unknown = behind(tbf);
    unknown.devices[0].speed_bits_per_second = None;
    let found = advised(&unknown, &way(1, 4), &["queue-shapes"]);
    assert_eq!(found[0].expected.unwrap().hakobu.unwrap().after, None);

    let cake = QueueDiscipline {
        kind: "cake".into(),
        bytes_per_second: Some(1_000_000),
        ..QueueDiscipline::default()
    };
    let found = advised(&behind(cake), &way(1, 4), &["queue-shapes"]);
    assert_eq!(found[0].command, "tc qdisc change dev eth0 root cake unlimited");

    let fq = QueueDiscipline {
        kind: "fq".into(),
        connection_bytes_per_second: Some(10_000_000),
        ..QueueDiscipline::default()
    };
    let found = advised(&behind(fq), &way(1, 4), &["queue-paces"]);
    let expected = found[0].expected.unwrap();
    let (one, all) = (expected.connection.unwrap().before, expected.hakobu.unwrap().before);
    assert!(near(one, 10e6 * 1448.0 / 1514.0) && near(all, one * 4.0), "{expected:?}");

    let netem = QueueDiscipline {
        kind: "netem".into(),
        delay_us: Some(20_000),
        lost_per_million: Some(5_000),
        ..QueueDiscipline::default()
    };
    let found = advised(&behind(netem), &way(20, 10), &["queue-emulates"]);
    assert_eq!(found[0].fact, "netem on eth0 delays packets by 20 ms and loses 0.5 % of them");

    let pfifo = |packets| QueueDiscipline {
        kind: "pfifo".into(),
        packets_max: Some(packets),
        ..QueueDiscipline::default()
    };
    advised(&behind(pfifo(1000)), &way(20, 10), &[]);
    advised(&behind(pfifo(3)), &way(20, 10), &[]);
    advised(&behind(pfifo(2)), &way(20, 10), &["queue-short"]);
    let bfifo = |bytes| QueueDiscipline {
        kind: "bfifo".into(),
        bytes_max: Some(bytes),
        ..QueueDiscipline::default()
    };
    advised(&behind(bfifo(100_000)), &way(20, 10), &[]);
    advised(&behind(bfifo(65_536)), &way(20, 10), &["queue-short"]);
}

#[test]
fn what_a_queue_holds_bounds_what_windows_are_said_to_give_now() {
    let tbf = QueueDiscipline {
        kind: "tbf".into(),
        bytes_per_second: Some(2_000_000),
        ..QueueDiscipline::default()
    };
    let mut host = behind(tbf);
    host.tcp.window_scaling = Some(false);
    let mut found = advise(&host, Some(&good()), &way(4, 2));
    found.sort_by_key(|finding| finding.id);
    let ids: Vec<_> = found.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, ["queue-shapes", "tcp-window-scaling-off"]);
    let before: Vec<_> =
        found.iter().map(|finding| finding.expected.unwrap().hakobu.unwrap().before).collect();
    assert!(before.iter().all(|rate| *rate < 2e6), "{before:?}");
}

#[test]
fn bbr_on_an_old_kernel_takes_a_queue_that_paces() {
    let on = |kernel, kind: &str| {
        let mut host = behind(QueueDiscipline { kind: kind.into(), ..QueueDiscipline::default() });
        host.kernel = Some(kernel);
        host.tcp.congestion_control = "bbr".into();
        let found = advise(&host, Some(&good()), &way(20, 10));
        found.iter().map(|finding| finding.id).collect::<Vec<_>>()
    };
    assert_eq!(on((4, 12), "pfifo_fast"), ["queue-without-pacing"]);
    assert_eq!(on((4, 12), "fq"), [""; 0]);
    assert_eq!(on((4, 13), "pfifo_fast"), [""; 0]);
}

#[test]
fn a_bond_by_addresses_of_cards_leaves_a_port_idle() {
    let bond = |hash: &str, joined| HostFacts {
        devices: vec![
            NetworkDevice {
                hardware: false,
                bond: Some(Bond {
                    mode: "802.3ad".into(),
                    hash: hash.into(),
                    ports: vec!["eno1".into(), "eno2".into()],
                    joined_ports: Some(joined),
                }),
                ..device("bond0", Some(50))
            },
            device("eno1", Some(25)),
            device("eno2", Some(25)),
        ],
        way_out: Some(WayOut { device: "bond0".into(), routed: false }),
        ..good()
    };
    let other = HostFacts { devices: vec![device("eth0", Some(100))], ..good() };
    let advised = |facts: &HostFacts, other: &HostFacts| {
        let found = advise(facts, Some(other), &way(0, 4));
        found.iter().map(|finding| (finding.id, finding.expected)).collect::<Vec<_>>()
    };
    let found = advised(&bond("layer2", 2), &other);
    assert_eq!((found.len(), found[0].0), (1, "bond-hash"));
    let change = found[0].1.unwrap().hakobu.unwrap();
    assert!(near(change.before, 3.125e9) && near(change.after.unwrap(), 6.25e9), "{change:?}");
    assert_eq!(advised(&bond("layer3+4", 2), &other), []);
    assert_eq!(advised(&bond("layer3+4", 1), &other)[0].0, "bond-ports-idle");
    // The other end does not exceed the rate of one port.
    let slow = HostFacts { devices: vec![device("eth0", Some(25))], ..good() };
    assert_eq!(advised(&bond("layer2", 2), &slow), []);
}

#[test]
fn devices_that_are_set_badly() {
    let with = |change: &dyn Fn(&mut NetworkDevice)| {
        let mut device = device("eth0", Some(10));
        change(&mut device);
        HostFacts { devices: vec![device], ..good() }
    };
    let short = way(0, 4);
    advised(&with(&|device| device.full_duplex = Some(false)), &short, &["device-half-duplex"]);
    advised(&with(&|device| device.mtu_bytes = 576), &short, &["device-mtu-small"]);
    let slow = with(&|device| device.speed_bits_per_second = Some(100_000_000));
    let found = advised(&slow, &short, &["device-slow"]);
    assert!(near(found[0].expected.unwrap().hakobu.unwrap().before, 12.5e6));
    let missing = with(&|device| device.missed_packets = 100);
    let found = advised(&missing, &short, &["device-ring-small"]);
    assert_eq!(found[0].command, "ethtool -G eth0 rx 4096");
    advised(&with(&|device| device.missed_packets = 9), &short, &[]);
    let off =
        with(&|device| device.offloads = device.offloads.map(|on| Offloads { segmentation: false, ..on }));
    let found = advised(&off, &short, &["device-offloads-off"]);
    assert_eq!(found[0].command, "ethtool -K eth0 tso on");
    // A device that no packets leave by does not matter.
    let mut other = slow.clone();
    other.way_out = Some(WayOut { device: "eth1".into(), routed: false });
    advised(&other, &short, &[]);
}

#[test]
fn a_name_that_is_no_name_gets_into_no_command() {
    let name = KernelName::from("e;reboot\x1b");
    let host = HostFacts {
        devices: vec![NetworkDevice { mtu_bytes: 576, name: name.clone(), ..device("x", None) }],
        way_out: Some(WayOut { device: name, routed: false }),
        mounts: vec![mount("/a'b", "ext4", "rw,sync"), mount("/\x1b[2J", "ext4", "rw,sync")],
        ..good()
    };
    for finding in advise(&host, Some(&good()), &way(0, 4)) {
        let text = format!("{} {} {}", finding.fact, finding.why, finding.command);
        assert!(!text.contains('\x1b') && !finding.command.contains(";reboot"), "{text}");
    }
}

#[test]
fn what_costs_without_a_figure() {
    let mut host = good();
    host.tcp.selective_acknowledgements = Some(false);
    host.tcp.timestamps = Some(false);
    host.tcp.congestion_control = "reno".into();
    // Timestamps matter only on a fast network path, the congestion control only on a long one.
    let found = advised(&host, &way(1, 4), &["tcp-sack-off"]);
    assert!(found[0].why.contains("0.200 % of its packets"), "{}", found[0].why);
    advised(&host, &way(50, 10), &["tcp-sack-off", "tcp-congestion-control"]);
    host.devices = vec![device("eth0", Some(10))];
    advised(&host, &way(1, 4), &["tcp-sack-off", "tcp-timestamps-off"]);

    let mut host = good();
    host.devices = vec![NetworkDevice { numa_node: Some(0), ..device("eth0", Some(100)) }];
    host.disks[1].numa_node = Some(1);
    advised(&host, &way(0, 4), &["numa-device-and-disks"]);
    host.disks[0] =
        HostDisk { numa_node: Some(0), rotational: false, scheduler: "bfq".into(), name: "sda".into() };
    advised(&host, &way(0, 4), &["disk-scheduler"]);
}

#[test]
fn processors_limits_and_mounts() {
    let mut host = good();
    host.processors[0].driver = "acpi-cpufreq".into();
    let found = advised(&host, &way(0, 4), &["processor-governor"]);
    assert_eq!(found[0].expected.unwrap().times, Some(4.5));
    host.processors[0].highest_khz = 1_800_000;
    host.processors[0].governor = "performance".into();
    let found = advised(&host, &way(0, 4), &["processor-clock-held"]);
    assert_eq!(found[0].expected.unwrap().times, Some(2.0));

    let mut host = good();
    host.limits = ProcessLimits {
        open_files: (Capped::At(64), Capped::At(128)),
        file_bytes: Capped::At(1 << 30),
        processor_seconds: Capped::At(60),
        address_space_bytes: Capped::At(1 << 30),
    };
    let found = advised(
        &host,
        &way(0, 4),
        &["limit-open-files", "limit-file-size", "limit-processor-time", "limit-memory"],
    );
    assert!(found[0].command.contains("beyond the hard limit of 128 only as root"), "{}", found[0].command);
    for (hard, raised) in
        [(Capped::At(2000), "2000 "), (Capped::At(1 << 20), "4096 "), (Capped::Unlimited, "4096 ")]
    {
        let mut host = good();
        host.limits.open_files = (Capped::At(64), hard);
        let found = advised(&host, &way(0, 4), &["limit-open-files"]);
        assert!(found[0].command.starts_with(&format!("ulimit -n {raised}")), "{}", found[0].command);
    }

    let mut host = good();
    host.mounts = vec![
        mount("/a", "ext4", "ro,sync"),
        mount("/b", "xfs", "rw,sync"),
        mount("/c", "ext4", "rw,data=journal"),
        mount("/d e", "nfs", "rw,wsize=8192,rsize=1048576"),
        mount("/f", "cifs", "rw,cache=none"),
    ];
    let ids = ["mount-data-journal", "mount-sync", "mount-requests-small", "mount-no-cache"];
    let found = advised(&host, &way(0, 4), &ids);
    assert!(found[2].command.contains("umount '/d e'"), "{}", found[2].command);
}

#[test]
fn only_the_ssh_server_that_is_logged_in_to_counts() {
    let strict = HostFacts {
        login_server: Some(LoginServer {
            max_startups: Some((2, 50, 4)),
            max_sessions: Some(1),
            max_startups_of_one: Some(1),
            rekey_bytes: Some(1 << 20),
            of_match: (true, false),
            penalties: Some(Penalties { refused_seconds: Some(90), ..Penalties::default() }),
        }),
        ..good()
    };
    assert_eq!(advise(&strict, Some(&good()), &way(100, 10)), []);
    let found = advise(&good(), Some(&strict), &way(100, 10));
    assert_eq!(found.len(), 5);
    let command = |id: &str| found.iter().find(|finding| finding.id == id).unwrap().command.clone();
    assert!(command("sshd-max-sessions").contains("`MaxSessions 10` into the Match"));
    assert!(command("sshd-rekey-limit").contains("`RekeyLimit default` first into"));
    assert_eq!(advise(&strict, None, &NetworkPath::assumed(10)).len(), 5);
    let off = Penalties { refused_seconds: Some(0), silent_seconds: Some(0), from_seconds: Some(0) };
    let lax = HostFacts {
        login_server: Some(LoginServer { penalties: Some(off), ..LoginServer::default() }),
        ..good()
    };
    assert_eq!(advise(&good(), Some(&lax), &way(100, 10)), []);
}
