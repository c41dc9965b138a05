//! Queries the kernel over netlink for facts that no file reports completely: the route of packets, and the queues of
//! a device.
//!
//! Only the needed parts of `rtnetlink(7)` are implemented. The kernel is trusted, but lengths are checked all the
//! same.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with,
};

/// The sizes of `struct nlmsghdr` and `struct nlattr`.
const HEADER_BYTES: usize = 16;
const ATTRIBUTE_BYTES: usize = 4;
/// Both start at a multiple of this.
const ALIGNMENT: usize = 4;
const IS_REQUEST: u16 = 1;
const IS_ONE_OF_SEVERAL: u16 = 2;
const ALL_OF_THEM: u16 = 0x300;
const FAILED: u16 = 2;
const DONE: u16 = 3;
/// The buffer size in bytes. The kernel fills no more than 32 KiB at a time.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The maximum number of answers to one query. Each may be a device of a container.
const ANSWERS_MAX: usize = 65_536;
/// The time limit for an answer. The kernel answers at once, unless something prevents it.
const TIME_LIMIT: Duration = Duration::from_secs(2);

const GET_ROUTE: u16 = 26;
/// The size of `struct rtmsg`, which attributes follow.
const ROUTE_BYTES: usize = 12;
const ROUTE_TO: u16 = 1;
const ROUTE_FROM: u16 = 2;
const ROUTE_DEVICE: u16 = 4;
const ROUTE_GATEWAY: u16 = 5;
const ROUTE_OWN_ADDRESS: u16 = 7;
const ROUTE_VIA: u16 = 18;
const ROUTE_PROTOCOL: u16 = 27;
const TCP: u8 = 6;

const GET_QUEUE: u16 = 38;
const GET_CLASS: u16 = 42;
/// The size of `struct tcmsg`, which attributes follow.
const TRAFFIC_BYTES: usize = 20;
const TRAFFIC_KIND: u16 = 1;
const TRAFFIC_OPTIONS: u16 = 2;

/// The route of packets to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NetworkRoute {
    pub device: String,
    pub has_gateway: bool,
}

/// A queueing discipline of a device, or a class of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TrafficControl {
    pub device: u32,
    pub handle: u32,
    pub parent: u32,
    pub kind: Vec<u8>,
    pub options: Vec<u8>,
}

/// Queries the device by which a connection to an address leaves, with the rules that select a routing table.
///
/// A rule may depend on this machine's own address. The kernel looks up the route again after it has chosen that
/// address, and so does this function.
///
/// # Errors
/// The kernel's error: there is no route, or the query is not permitted.
pub(super) fn route(toward: IpAddr) -> io::Result<NetworkRoute> {
    let toward = toward.to_canonical();
    let socket = socket()?;
    let first = route_from(&socket, toward, None)?;
    let second = match first.own_address {
        own @ Some(_) => route_from(&socket, toward, own).unwrap_or(first),
        None => first,
    };
    let device = netdevice::index_to_name(&socket, second.device)?;
    Ok(NetworkRoute { device, has_gateway: second.has_gateway })
}

/// Queries all queueing disciplines of a device.
///
/// # Errors
/// The kernel's error.
pub(super) fn queues(device: &str) -> io::Result<Vec<TrafficControl>> {
    of_device(GET_QUEUE, device)
}

/// Queries all classes of the queueing disciplines of a device.
///
/// # Errors
/// The kernel's error.
pub(super) fn classes(device: &str) -> io::Result<Vec<TrafficControl>> {
    of_device(GET_CLASS, device)
}

fn of_device(kind: u16, device: &str) -> io::Result<Vec<TrafficControl>> {
    let socket = socket()?;
    let index = netdevice::name_to_index(&socket, device)?;
    let mut body = [0; TRAFFIC_BYTES];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    let found = ask(&socket, kind, ALL_OF_THEM, &body)?;
    Ok(found.iter().filter_map(|body| traffic(body)).filter(|found| found.device == index).collect())
}

fn traffic(body: &[u8]) -> Option<TrafficControl> {
    let (head, rest) = body.split_at_checked(TRAFFIC_BYTES)?;
    let value = |kind| attribute(rest, kind).map(<[u8]>::to_vec);
    Some(TrafficControl {
        device: number(head, 4)?,
        handle: number(head, 8)?,
        parent: number(head, 12)?,
        kind: value(TRAFFIC_KIND)?.into_iter().take_while(|&byte| byte != 0).collect(),
        options: value(TRAFFIC_OPTIONS).unwrap_or_default(),
    })
}

/// The kernel's answer to a route query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RouteReply {
    device: u32,
    has_gateway: bool,
    own_address: Option<IpAddr>,
}

fn route_from(socket: &OwnedFd, toward: IpAddr, from: Option<IpAddr>) -> io::Result<RouteReply> {
    let family = match toward {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let mut body = vec![0; ROUTE_BYTES];
    body[0] = family.as_raw() as u8;
    body[1] = bytes_of(toward).len() as u8 * 8;
    push(&mut body, ROUTE_TO, &bytes_of(toward));
    if let Some(from) = from {
        body[2] = bytes_of(from).len() as u8 * 8;
        push(&mut body, ROUTE_FROM, &bytes_of(from));
    }
    push(&mut body, ROUTE_PROTOCOL, &[TCP]);
    let found = ask(socket, GET_ROUTE, 0, &body)?;
    found.first().and_then(|body| read_route(body)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn read_route(body: &[u8]) -> Option<RouteReply> {
    let rest = body.get(ROUTE_BYTES..)?;
    Some(RouteReply {
        device: number(attribute(rest, ROUTE_DEVICE)?, 0)?,
        has_gateway: attribute(rest, ROUTE_GATEWAY).or(attribute(rest, ROUTE_VIA)).is_some(),
        own_address: attribute(rest, ROUTE_OWN_ADDRESS).and_then(address),
    })
}

fn bytes_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(four).into());
    }
    Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into())
}

fn socket() -> io::Result<OwnedFd> {
    // Protocol 0 of this family is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(TIME_LIMIT))?;
    Ok(socket)
}

/// Sends a query, and returns the bodies of the answers without their headers.
fn ask(socket: &OwnedFd, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((IS_REQUEST | flags).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    send(socket, &message, SendFlags::empty())?;
    let mut buffer = vec![0; ANSWER_BYTES_MAX];
    let mut found = Vec::new();
    loop {
        let (length, _) = recv(socket, &mut buffer[..], RecvFlags::empty())?;
        let answer = buffer.get(..length).unwrap_or_default();
        if answer.is_empty() || found.len() > ANSWERS_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if take(answer, &mut found)? {
            return Ok(found);
        }
    }
}

/// Appends the messages in one piece of an answer. Returns true if the answer is complete.
fn take(mut answer: &[u8], found: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    while let Some(length) = number(answer, 0) {
        let length = length as usize;
        let (Some(body), Some(kind), Some(flags)) =
            (answer.get(HEADER_BYTES..length), short(answer, 4), short(answer, 6))
        else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match kind {
            DONE => return Ok(true),
            FAILED => {
                let code = number(body, 0).unwrap_or_default() as i32;
                return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
            }
            _ => found.push(body.to_vec()),
        }
        if flags & IS_ONE_OF_SEVERAL == 0 {
            return Ok(true);
        }
        answer = answer.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    }
    Ok(false)
}

/// Returns the value of the first attribute of this kind.
pub(super) fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    // The two highest bits mark nested attributes, and those in network byte order.
    const KIND: u16 = 0x3fff;
    loop {
        let length = usize::from(short(bytes, 0)?);
        let value = bytes.get(ATTRIBUTE_BYTES..length)?;
        if short(bytes, 2)? & KIND == kind {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(ALIGNMENT)..)?;
    }
}

/// Returns the 32-bit number at an offset.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the 64-bit number at an offset.
pub(super) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Appends an attribute.
pub(super) fn push(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend(((ATTRIBUTE_BYTES + value.len()) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_the_way_to_itself() {
        for address in ["127.0.0.1", "::ffff:127.0.0.1"] {
            let route = route(address.parse().unwrap()).unwrap();
            assert_eq!(route, NetworkRoute { device: "lo".to_owned(), has_gateway: false }, "{address}");
        }
        let error = queues("no-such-device").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NODEV.raw_os_error()), "{error}");
    }

    #[test]
    fn answers_that_are_cut_anywhere_are_refused_or_hold_nothing() {
        let mut body = vec![7; TRAFFIC_BYTES];
        push(&mut body, TRAFFIC_KIND, b"tbf\0");
        push(&mut body, TRAFFIC_OPTIONS, &[1, 2, 3]);
        let whole = traffic(&body).unwrap();
        assert_eq!((&whole.kind[..], &whole.options[..]), (&b"tbf"[..], &[1, 2, 3][..]));
        let mut answer = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        answer.extend([36, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        answer.extend(&body);
        let mut found = Vec::new();
        assert!(take(&answer, &mut found).unwrap() && found == [body]);
        for end in 0..answer.len() {
            let mut found = Vec::new();
            assert!(!take(&answer[..end], &mut found).unwrap_or(false) && found.is_empty(), "{end}");
        }
        // An attribute with a length below that of its own header would cause an endless loop.
        assert_eq!(attribute(&[0, 0, 9, 0, 0, 0, 9, 0], 1), None);
        assert_eq!(attribute(&[2, 0, 9, 0, 0, 0, 9, 0], 1), None);
    }
}
