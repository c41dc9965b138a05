//! Reads the queues of a network device, and their effect on packets.

use hakobu_core::host::{KernelName, QUEUES_MAX, QueueDiscipline};

use super::netlink::{self, TrafficControl, attribute, long, number};

/// The parent of a discipline that is not below another one.
const ROOT: u32 = 0xffff_ffff;
/// The parent of the discipline for incoming packets, which is not a queue.
const INCOMING: u32 = 0xffff_fff1;
/// The value that stands for no rate.
const NO_RATE: u32 = u32::MAX;
/// The offset of the rate in `struct tc_ratespec`, and the size of that structure.
const RATE_AT: usize = 8;
const RATE_BYTES: usize = 12;
/// The maximum depth of nested classes.
const CLASSES_DEEP_MAX: usize = 16;

/// Returns the queues of a device, without duplicates. Empty if the kernel does not report them.
pub(super) fn of(device: &str) -> Vec<QueueDiscipline> {
    let Ok(queues) = netlink::queues(device) else { return Vec::new() };
    let has_classes = queues.iter().any(|queue| queue.kind == b"htb");
    let classes = if has_classes { netlink::classes(device).unwrap_or_default() } else { Vec::new() };
    read(&queues, &classes)
}

fn read(queues: &[TrafficControl], classes: &[TrafficControl]) -> Vec<QueueDiscipline> {
    let mut found: Vec<QueueDiscipline> = Vec::new();
    for traffic in queues.iter().filter(|queue| queue.parent != INCOMING) {
        let queue = one(traffic, classes);
        if found.len() < QUEUES_MAX && !found.contains(&queue) {
            found.push(queue);
        }
    }
    found
}

fn one(traffic: &TrafficControl, classes: &[TrafficControl]) -> QueueDiscipline {
    let options = &traffic.options[..];
    let queue = QueueDiscipline {
        kind: KernelName::new(traffic.kind.clone()),
        is_root: traffic.parent == ROOT,
        ..QueueDiscipline::default()
    };
    match &traffic.kind[..] {
        b"tbf" => {
            let parameters = attribute(options, 1).unwrap_or_default();
            QueueDiscipline { bytes_per_second: rate(parameters, attribute(options, 4)), ..queue }
        }
        b"cake" => QueueDiscipline {
            bytes_per_second: attribute(options, 2).and_then(|rate| long(rate, 0)).filter(|rate| *rate > 0),
            ..queue
        },
        b"htb" => QueueDiscipline { bytes_per_second: usual_class(traffic, classes), ..queue },
        b"fq" => QueueDiscipline {
            connection_bytes_per_second: attribute(options, 7)
                .and_then(|rate| number(rate, 0))
                .filter(|rate| *rate != NO_RATE && *rate > 0)
                .map(u64::from),
            ..queue
        },
        b"netem" => netem(options, queue),
        b"pfifo" | b"pfifo_head_drop" => QueueDiscipline { packets_max: number(options, 0), ..queue },
        b"bfifo" => QueueDiscipline { bytes_max: number(options, 0), ..queue },
        _ => queue,
    }
}

/// Returns the rate at the start of a structure, or the 64-bit rate of an attribute if it does not fit there.
fn rate(parameters: &[u8], large: Option<&[u8]>) -> Option<u64> {
    let small = number(parameters, RATE_AT).map(u64::from);
    large.and_then(|rate| long(rate, 0)).or(small).filter(|rate| *rate > 0)
}

/// Parses `struct tc_netem_qopt` and the attributes that follow it.
fn netem(options: &[u8], queue: QueueDiscipline) -> QueueDiscipline {
    const BYTES: usize = 24;
    const LOSS_AT: usize = 8;
    let attributes = options.get(BYTES..).unwrap_or_default();
    let bytes_per_second = rate_of_netem(attributes);
    let lost = number(options, LOSS_AT).unwrap_or(0);
    let lost_per_million = (u64::from(lost) * 1_000_000).div_ceil(u64::from(u32::MAX)) as u32;
    let delay_ns = attribute(attributes, 10).and_then(|delay| long(delay, 0)).unwrap_or(0);
    QueueDiscipline {
        bytes_per_second,
        lost_per_million: Some(lost_per_million).filter(|lost| *lost > 0),
        delay_us: Some(delay_ns / 1000).filter(|delay| *delay > 0),
        ..queue
    }
}

fn rate_of_netem(attributes: &[u8]) -> Option<u64> {
    let small = attribute(attributes, 6).and_then(|rate| number(rate, 0)).map(u64::from);
    attribute(attributes, 8).and_then(|rate| long(rate, 0)).or(small).filter(|rate| *rate > 0)
}

/// Returns the maximum rate of the default class, which takes packets that no filter matches, limited by the classes
/// above it.
fn usual_class(htb: &TrafficControl, classes: &[TrafficControl]) -> Option<u64> {
    const USUAL_AT: usize = 8;
    let minor = attribute(&htb.options, 2).and_then(|global| number(global, USUAL_AT))?;
    let mut id = htb.handle | (minor & 0xffff);
    let mut least = None::<u64>;
    for _ in 0..CLASSES_DEEP_MAX {
        let Some(class) = classes.iter().find(|class| class.handle == id && class.kind == b"htb") else {
            break;
        };
        // The guaranteed rate comes first, then the ceiling up to which the class may borrow.
        let parameters = attribute(&class.options, 1)?.get(RATE_BYTES..)?;
        let most = rate(parameters, attribute(&class.options, 7))?;
        least = Some(least.map_or(most, |least| least.min(most)));
        id = class.parent;
    }
    least
}

#[cfg(test)]
mod tests {
    use super::super::netlink::push;
    use super::*;

    fn traffic(kind: &str, options: Vec<u8>) -> TrafficControl {
        TrafficControl { device: 1, handle: 0x10000, parent: ROOT, kind: kind.into(), options }
    }

    /// Returns a sequence of 32-bit numbers as bytes.
    fn numbers(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    fn with(attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        attributes.iter().for_each(|(kind, value)| push(&mut bytes, *kind, value));
        bytes
    }

    fn read_one(kind: &str, options: Vec<u8>) -> QueueDiscipline {
        read(&[traffic(kind, options)], &[]).remove(0)
    }

    #[test]
    fn rates_are_read_of_all_that_shape() {
        let parameters = numbers(&[0, 0, 12_500_000, 0, 0, 0, 1 << 20, 1600, 0]);
        let large = 5_000_000_000_u64.to_ne_bytes().to_vec();
        let queue = read_one("tbf", with(&[(1, parameters.clone())]));
        assert_eq!((queue.bytes_per_second, queue.is_root), (Some(12_500_000), true));
        let queue = read_one("tbf", with(&[(1, parameters), (4, large.clone())]));
        assert_eq!(queue.bytes_per_second, Some(5_000_000_000));
        assert_eq!(read_one("cake", with(&[(2, large)])).bytes_per_second, Some(5_000_000_000));
        assert_eq!(read_one("cake", with(&[(2, vec![0; 8])])).bytes_per_second, None);
        let queue = read_one("fq", with(&[(1, numbers(&[100])), (7, numbers(&[1_250_000]))]));
        assert_eq!(queue.connection_bytes_per_second, Some(1_250_000));
        assert_eq!(read_one("fq", with(&[(7, numbers(&[NO_RATE]))])).connection_bytes_per_second, None);
    }

    #[test]
    fn what_netem_does_is_read() {
        let mut options = numbers(&[0, 1000, u32::MAX / 100, 0, 0, 0]);
        options
            .extend(with(&[(6, numbers(&[125_000, 0, 0, 0])), (10, 20_000_000_u64.to_ne_bytes().to_vec())]));
        let queue = read_one("netem", options);
        assert_eq!(queue.bytes_per_second, Some(125_000));
        assert_eq!((queue.lost_per_million, queue.delay_us), (Some(10_000), Some(20_000)));
        assert_eq!(
            read_one("netem", numbers(&[0; 6])),
            QueueDiscipline { kind: "netem".into(), is_root: true, ..QueueDiscipline::default() }
        );
    }

    #[test]
    fn the_usual_class_is_held_by_those_above_it() {
        let class = |minor: u32, parent: u32, most: u32| TrafficControl {
            handle: 0x10000 | minor,
            parent,
            options: with(&[(1, numbers(&[0, 0, 1, 0, 0, most, 0, 0, 0, 0, 0]))]),
            ..traffic("htb", Vec::new())
        };
        let htb = traffic("htb", with(&[(2, numbers(&[3, 10, 0x20, 0, 0]))]));
        let classes = [class(1, ROOT, 5_000), class(0x20, 0x10001, 9_000), class(0x30, 0x10001, 10)];
        assert_eq!(read(std::slice::from_ref(&htb), &classes)[0].bytes_per_second, Some(5_000));
        // Without that class, packets pass without a limit.
        assert_eq!(read(&[htb], &classes[..1])[0].bytes_per_second, None);
    }

    #[test]
    fn alike_queues_of_a_device_are_told_once_and_incoming_ones_are_none() {
        let fifo = |parent| TrafficControl { parent, ..traffic("pfifo", numbers(&[1000])) };
        let incoming = TrafficControl { parent: INCOMING, ..traffic("ingress", Vec::new()) };
        let found = read(&[traffic("mq", Vec::new()), fifo(0x10001), fifo(0x10002), incoming], &[]);
        let kinds: Vec<_> = found.iter().map(|queue| (queue.kind.shown(), queue.packets_max)).collect();
        assert_eq!(kinds, [("mq".to_owned(), None), ("pfifo".to_owned(), Some(1000))]);
    }

    #[test]
    fn options_that_are_cut_tell_nothing() {
        for kind in ["tbf", "cake", "fq", "netem", "pfifo", "bfifo", "htb"] {
            for length in 0..8 {
                let queue = read_one(kind, vec![0xff; length]);
                let limits = (queue.bytes_per_second, queue.connection_bytes_per_second, queue.delay_us);
                assert_eq!(limits, (None, None, None), "{kind} {length}");
            }
        }
    }
}
