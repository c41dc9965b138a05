//! Malicious controllers: an agent receives invalid bytes and requests out of order.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::thread::JoinHandle;

use hakobu_agent::agent::agent;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::DraftKind;
use hakobu_core::error::{ErrorKind, Result};
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, JobItem};
use hakobu_core::pace::RunLimits;
use hakobu_core::path::EntryPath;
use hakobu_proto::control::PREAMBLE;
use hakobu_proto::control::{
    AgentMessage, Cipher, ConnectMode, ConnectRequest, MESSAGE_BYTES_MAX, MachinePath, Request, RunRequest,
    ServeRequest, StoreLook, VERSION_NEWEST, VERSION_OLDEST,
};

use crate::bench::job;

/// An agent on a thread, with pipes for its input and output.
struct Controller {
    to: Option<PipeWriter>,
    from: PipeReader,
    agent: JoinHandle<Result<()>>,
}

impl Controller {
    fn new() -> Self {
        let (input, to) = std::io::pipe().unwrap();
        let (mut from, output) = std::io::pipe().unwrap();
        let agent = std::thread::spawn(move || agent(input, output));
        let mut preamble = vec![0; PREAMBLE.len()];
        from.read_exact(&mut preamble).unwrap();
        assert_eq!(preamble, PREAMBLE);
        Self { to: Some(to), from, agent }
    }

    fn greeted() -> Self {
        let mut controller = Self::new();
        let hello = Request::Hello { oldest: VERSION_OLDEST, newest: VERSION_NEWEST, digest: false };
        assert!(matches!(controller.ask(&hello), Some(AgentMessage::Hello(_))));
        controller
    }

    fn raw(&mut self, bytes: &[u8]) {
        // If the agent has already ended, its output shows that.
        let _ = self.to.as_mut().unwrap().write_all(bytes);
    }

    fn tell(&mut self, request: &Request) {
        let message = postcard::to_stdvec(request).unwrap();
        self.raw(&(message.len() as u32).to_le_bytes());
        self.raw(&message);
    }

    fn ask(&mut self, request: &Request) -> Option<AgentMessage> {
        self.tell(request);
        self.hear()
    }

    /// Returns the next answer; `None` if the agent has ended.
    fn hear(&mut self) -> Option<AgentMessage> {
        let mut length = [0; 4];
        self.from.read_exact(&mut length).ok()?;
        let mut message = vec![0; u32::from_le_bytes(length) as usize];
        self.from.read_exact(&mut message).unwrap();
        Some(postcard::from_bytes(&message).unwrap())
    }

    /// Checks that the agent refuses, and ends with an error.
    fn refused(mut self, first: Option<AgentMessage>) {
        let answer = first.or_else(|| self.hear());
        let Some(AgentMessage::Refused(error)) = answer else { panic!("not refused: {answer:?}") };
        assert_eq!(error.kind, ErrorKind::Protocol);
        assert!(self.hear().is_none());
        assert!(self.agent.join().unwrap().is_err());
    }

    /// Checks that the agent continues, and ends without error when its input does.
    fn goes_on(mut self) {
        let look = Request::LookAtTarget { path: b"/".to_vec() };
        assert!(matches!(self.ask(&look), Some(AgentMessage::Target(Ok(_)))));
        drop(self.to.take());
        assert!(self.hear().is_none());
        self.agent.join().unwrap().unwrap();
    }
}

#[test]
fn lengths_and_garbage() {
    let too_long = (MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes();
    let many = [1u8, 0xff, 0xff, 0xff, 0xff, 0x0f];
    let list = [&(many.len() as u32).to_le_bytes()[..], &many].concat();
    for bytes in [&too_long[..], &[0xff; 8], &[0; 4], &[1, 0, 0, 0, 0x7f], &list] {
        let mut controller = Controller::greeted();
        controller.raw(bytes);
        controller.refused(None);
    }
}

#[test]
fn something_behind_a_message() {
    let mut controller = Controller::greeted();
    controller.raw(&[2, 0, 0, 0, 10, 10]);
    controller.refused(None);
}

#[test]
fn paths_that_lead_elsewhere() {
    for place in [&b".."[..], b"/etc", b"a//b", b"a\0b"] {
        let mut message = vec![3, 1, b'/', 1, place.len() as u8];
        message.extend_from_slice(place);
        let mut controller = Controller::greeted();
        controller.raw(&(message.len() as u32).to_le_bytes());
        controller.raw(&message);
        controller.refused(None);
    }
}

#[test]
fn a_message_cut_short_is_the_end() {
    let mut controller = Controller::greeted();
    controller.raw(&[9, 0, 0, 0, 1, 2]);
    drop(controller.to.take());
    assert!(controller.hear().is_none());
    controller.agent.join().unwrap().unwrap();
}

fn connect(way: ConnectMode) -> Request {
    Request::Connect(ConnectRequest {
        peer: [7; 32],
        cipher: Cipher::Aes128Gcm,
        way,
        lanes: u16::MAX,
        lanes_max: u16::MAX,
    })
}

fn run() -> Request {
    let item = JobItem {
        root: 9,
        source: EntryPath::new("x").unwrap(),
        target: EntryPath::new("x").unwrap(),
        place: DraftKind::File,
    };
    let job = Job {
        items: vec![item],
        make_directory: None,
        lanes: u16::MAX,
        digest: true,
        clone: false,
        durable: true,
        dry_run: false,
        require: Vec::new(),
        ..Job::default()
    };
    let roots = vec![MachinePath(b"/nowhere".to_vec())];
    Request::Run(RunRequest { job, roots, capabilities: Capabilities::posix(true) })
}

fn serve(job: [u8; 16], root: &[u8], way: ConnectMode) -> Request {
    let grant = Grant::everything();
    let (peer, cipher) = ([7; 32], Cipher::Aes128Gcm);
    Request::Serve(ServeRequest {
        job,
        root: root.to_vec(),
        grant,
        peer,
        cipher,
        way,
        lanes: u16::MAX,
        lanes_max: u16::MAX,
    })
}

#[test]
fn anything_before_hello_and_hello_twice() {
    let hello = Request::Hello { oldest: VERSION_OLDEST, newest: VERSION_NEWEST, digest: false };
    for request in [
        run(),
        connect(ConnectMode::Accept),
        Request::EndServing,
        Request::Listen { address: None, port: None },
    ] {
        let mut controller = Controller::new();
        let answer = controller.ask(&request);
        controller.refused(answer);
    }
    let mut controller = Controller::greeted();
    let answer = controller.ask(&hello);
    controller.refused(answer);
}

#[test]
fn versions_that_do_not_meet_can_be_tried_again() {
    let mut controller = Controller::new();
    for (oldest, newest) in [(900, 901), (0, 0), (9, 1)] {
        let answer = controller.ask(&Request::Hello { oldest, newest, digest: false });
        let Some(AgentMessage::Refused(error)) = answer else { panic!("{answer:?}") };
        assert_eq!(error.kind, ErrorKind::Unsupported);
    }
    let hello = Request::Hello { oldest: VERSION_OLDEST, newest: VERSION_NEWEST, digest: false };
    assert!(matches!(controller.ask(&hello), Some(AgentMessage::Hello(_))));
    controller.goes_on();
}

#[test]
fn limits_have_no_answer_whenever_they_come() {
    let mut controller = Controller::new();
    let limits = |operations| {
        let limits = RunLimits { operations_per_second: Some(operations), ..RunLimits::default() };
        Request::Limits(RunLimits { source_p99_us: Some(u64::MAX), ..limits })
    };
    controller.tell(&limits(0));
    let hello = Request::Hello { oldest: VERSION_OLDEST, newest: VERSION_NEWEST, digest: false };
    assert!(matches!(controller.ask(&hello), Some(AgentMessage::Hello(_))));
    // More of them than requests may wait.
    for operations in 0..100 {
        controller.tell(&limits(operations));
    }
    assert!(matches!(controller.ask(&Request::Ciphers), Some(AgentMessage::Ciphers(_))));
}

#[test]
fn requests_out_of_order_are_answered_with_errors() {
    let mut controller = Controller::greeted();
    let usage = |kind: ErrorKind| assert_eq!(kind, ErrorKind::Usage);
    match controller.ask(&run()) {
        Some(AgentMessage::Ran(ran)) => usage(ran.summary.fatal.unwrap().kind),
        other => panic!("{other:?}"),
    }
    match controller.ask(&connect(ConnectMode::Accept)) {
        Some(AgentMessage::Connected(Err(error))) => usage(error.kind),
        other => panic!("{other:?}"),
    }
    match controller.ask(&serve(job(), b"/", ConnectMode::Accept)) {
        Some(AgentMessage::Serving(Err(error))) => usage(error.kind),
        other => panic!("{other:?}"),
    }
    assert!(matches!(controller.ask(&Request::EndServing), Some(AgentMessage::Served(_))));
    let nobody = ConnectMode::Dial { addresses: vec!["127.0.0.1".into(); 100], port: 1 };
    assert!(matches!(controller.ask(&connect(nobody.clone())), Some(AgentMessage::Connected(Err(_)))));
    assert!(matches!(controller.ask(&serve(job(), b"/", nobody)), Some(AgentMessage::Serving(Err(_)))));
    let nowhere = ConnectMode::Dial { addresses: Vec::new(), port: 0 };
    assert!(matches!(
        controller.ask(&serve(job(), b"/no/where", nowhere)),
        Some(AgentMessage::Serving(Err(_)))
    ));
    controller.goes_on();
}

#[test]
fn serving_twice_lets_go_of_the_first() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().as_os_str().as_encoded_bytes();
    let mut controller = Controller::greeted();
    let (first, second) = (job(), job());
    for job in [first, second, first, first] {
        let listening = controller.ask(&Request::Listen { address: Some("127.0.0.1".into()), port: None });
        assert!(matches!(listening, Some(AgentMessage::Listening(Ok(_)))), "{listening:?}");
        let serving = controller.ask(&serve(job, root, ConnectMode::Accept));
        assert!(matches!(serving, Some(AgentMessage::Serving(Ok(_)))), "{serving:?}");
    }
    controller.goes_on();
}

#[test]
fn requests_without_end_are_not_piled_up() {
    let mut controller = Controller::greeted();
    // A connection that nobody makes keeps the agent busy.
    let listening = controller.ask(&Request::Listen { address: Some("127.0.0.1".into()), port: None });
    assert!(matches!(listening, Some(AgentMessage::Listening(Ok(_)))));
    let message = postcard::to_stdvec(&connect(ConnectMode::Accept)).unwrap();
    let message = [&(message.len() as u32).to_le_bytes()[..], &message].concat();
    (0..200).for_each(|_| controller.raw(&message));
    let mut refused = false;
    while let Some(answer) = controller.hear() {
        refused |= matches!(answer, AgentMessage::Refused(_));
    }
    assert!(refused);
    assert!(controller.agent.join().unwrap().is_err());
}

#[test]
fn a_store_that_was_not_opened_is_not_used() {
    for request in [
        Request::LookInStore(StoreLook::Target { path: b"x".to_vec() }),
        Request::RemoveUnfinished { path: b"x".to_vec() },
    ] {
        let mut controller = Controller::greeted();
        let answer = controller.ask(&request);
        controller.refused(answer);
    }
}
