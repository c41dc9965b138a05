//! A way to a server from a namespace at the other end of a link. In the namespace the server is on loopback.

use std::io::copy;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};

use hakobu_sys::netns::run_in;
use hakobu_testkit::link::Link;

/// Starts relays in both namespaces. Returns the address in the near one.
pub fn relay(link: &Link, server: SocketAddr) -> SocketAddr {
    let near = bind(link.near().name(), Ipv4Addr::LOCALHOST);
    let far = bind(link.far().name(), link.far().address());
    let (at, between) = (near.local_addr().unwrap(), far.local_addr().unwrap());
    serve(far, move || TcpStream::connect(server));
    let name = link.near().name().to_owned();
    serve(near, move || run_in(&name, || TcpStream::connect(between))?);
    at
}

fn bind(namespace: &str, address: Ipv4Addr) -> TcpListener {
    run_in(namespace, || TcpListener::bind((address, 0))).unwrap().unwrap()
}

/// Joins each connection with one of its own.
fn serve(listener: TcpListener, connect: impl Fn() -> std::io::Result<TcpStream> + Send + 'static) {
    std::thread::spawn(move || {
        for inside in listener.incoming() {
            let (Ok(inside), Ok(outside)) = (inside, connect()) else { continue };
            let back = (outside.try_clone().unwrap(), inside.try_clone().unwrap());
            std::thread::spawn(move || pass(inside, outside));
            std::thread::spawn(move || pass(back.0, back.1));
        }
    });
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _has_failed = copy(&mut from, &mut to);
    let _was_over = to.shutdown(Shutdown::Both);
    let _was_over = from.shutdown(Shutdown::Both);
}
