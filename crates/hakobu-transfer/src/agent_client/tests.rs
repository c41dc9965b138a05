//! Tests with agents that are broken or malicious: everything that they send is untrusted.

use std::io::PipeWriter;
use std::sync::Mutex;

use hakobu_core::event::{Event, NoObserver};
use hakobu_proto::control::{ListeningPort, MESSAGE_BYTES_MAX};

use super::*;

const LIMIT: Duration = Duration::from_millis(200);

/// Returns the controller's result for these bytes, with the writing end still open.
fn hear(bytes: &[u8]) -> Result<AgentMessage> {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(bytes).unwrap();
    receive(&mut reader, LIMIT, &|| None, "host")
}

fn told(answer: &AgentMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::send(&mut bytes, answer).unwrap();
    bytes
}

#[test]
fn an_answer_that_stops_in_the_middle_is_not_waited_for() {
    let bytes =
        told(&AgentMessage::Listening(Ok(ListeningPort { port: 1, addresses: Vec::new(), process: 1 })));
    for end in 0..bytes.len() {
        let error = hear(&bytes[..end]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TimedOut, "{end}: {error}");
    }
    assert!(matches!(hear(&bytes), Ok(AgentMessage::Listening(Ok(_)))));
}

#[test]
fn lengths_and_garbage_are_refused() {
    let too_long = (MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes();
    let unknown = [1, 0, 0, 0, 0x7f];
    // An answer with a list that claims 2^32 elements.
    let endless = [7, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0];
    for bytes in [&too_long[..], &unknown, &endless, &[0; 4]] {
        assert_eq!(hear(bytes).unwrap_err().kind, ErrorKind::Protocol, "{bytes:?}");
    }
}

#[test]
fn an_agent_that_goes_away_is_a_lost_connection() {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[9, 0, 0, 0, 1]).unwrap();
    drop(writer);
    assert_eq!(receive(&mut reader, LIMIT, &|| None, "host").unwrap_err().kind, ErrorKind::ConnectionLost);
    assert_eq!(receive(&mut reader, LIMIT, &|| None, "host").unwrap_err().kind, ErrorKind::ConnectionLost);
}

/// Sends a message byte by byte, one every 20 ms.
fn trickle(mut writer: PipeWriter, answer: &AgentMessage) {
    for byte in told(answer) {
        std::thread::sleep(Duration::from_millis(20));
        let _ = writer.write_all(&[byte]);
    }
}

#[test]
fn an_answer_that_trickles_has_the_time_of_an_answer() {
    let long = AgentMessage::Listening(Err(Error::new(ErrorKind::Io, "x", "y".repeat(1000))));
    let (mut reader, writer) = std::io::pipe().unwrap();
    std::thread::spawn(move || trickle(writer, &long));
    let began = Instant::now();
    let error = receive(&mut reader, LIMIT, &|| None, "host").unwrap_err();
    assert_eq!(error.kind, ErrorKind::TimedOut);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[test]
fn an_answer_that_trickles_does_not_outlast_a_stop() {
    let long = AgentMessage::Event(Event::Notice { words: "y".repeat(1000) });
    let (mut reader, writer) = std::io::pipe().unwrap();
    std::thread::spawn(move || trickle(writer, &long));
    let (cancel, began) = (AtomicBool::new(true), Instant::now());
    let error = receive_run(&mut reader, &NoObserver, &cancel, "host").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// Sends an answer again and again until the reader is gone.
fn repeat(mut writer: PipeWriter, answer: &AgentMessage) {
    let bytes = told(answer);
    while writer.write_all(&bytes).is_ok() {}
}

struct CancelsAfter(u32, AtomicBool, Mutex<u32>);

impl Observer for CancelsAfter {
    fn event(&self, _event: Event) {
        let mut count = self.2.lock().unwrap();
        *count += 1;
        if *count == self.0 {
            self.1.store(true, Relaxed);
        }
    }
}

#[test]
fn events_without_end_do_not_outlast_a_stop() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let event = AgentMessage::Event(Event::Notice { words: "still here".into() });
    std::thread::spawn(move || repeat(writer, &event));
    let observer = CancelsAfter(1000, AtomicBool::new(false), Mutex::default());
    let error = receive_run(&mut reader, &observer, &observer.1, "host").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
}

#[test]
fn an_answer_to_something_else_ends_a_run() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    std::thread::spawn(move || repeat(writer, &AgentMessage::Connected(Ok(()))));
    let cancel = AtomicBool::new(false);
    let error = receive_run(&mut reader, &NoObserver, &cancel, "host").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol);
}

/// A channel to an agent in this process.
struct WithinProcess(Option<ChannelStreams>);

impl WithinProcess {
    fn start() -> Self {
        let ((from_controller, to_agent), (from_agent, to_controller)) =
            (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        std::thread::spawn(move || {
            let mut output = to_controller;
            hakobu_agent::agent::agent(from_controller, &mut output)
        });
        Self(Some(ChannelStreams { to_agent: Box::new(to_agent), from_agent: Box::new(from_agent) }))
    }
}

impl ControlChannel for WithinProcess {
    fn take_streams(&mut self) -> Option<ChannelStreams> {
        self.0.take()
    }
}

#[test]
fn any_channel_leads_to_an_agent() {
    let mut channel = WithinProcess::start();
    // ssh has read so far before it hands out its ends.
    let mut preamble = vec![0; hakobu_proto::control::PREAMBLE.len()];
    channel.0.as_mut().unwrap().from_agent.read_exact(&mut preamble).unwrap();
    let mut far = FarSide::start(Box::new(channel), "within").unwrap();
    assert_eq!(far.hello.version, VERSION_NEWEST);
    let there = crate::host::Host::look_at_target(&mut far, b"/dev/null").unwrap();
    assert_eq!((there.resolved, far.sessions().is_some()), (b"/dev/null".to_vec(), false));
    let mut used = WithinProcess::start();
    used.take_streams();
    let error = FarSide::start(Box::new(used), "within").err().unwrap();
    assert_eq!(error.kind, ErrorKind::Usage);
}
