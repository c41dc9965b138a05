//! Notifications to a real HTTP server and a real mail server.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hakobu_core::error::ErrorKind;
use hakobu_core::event::{Event, Observer};
use hakobu_fleet::control_plane::ControlPlane;
use hakobu_fleet::fleet_clock::{FleetClock, MachineClock};
use hakobu_fleet::ids::Moment;
use hakobu_fleet::key_file::SealingKeys;
use hakobu_fleet::leader::LeaderSettings;
use hakobu_fleet::lease_token::LeaseKey;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::notification::delivery::DeliveryLimits;
use hakobu_fleet::notification::mail::{MailEncryption, MailSender, MailServerSetting};
use hakobu_fleet::notification::webhook::WebhookSender;
use hakobu_fleet::notification::{Notification, NotificationKind};
use hakobu_fleet::notification_queue::{QueuedNotification, notification_queue};
use hakobu_fleet::notification_setting::NotificationSetting;
use hakobu_fleet::notifier::{Notifier, NotifierSettings, WEBHOOK_SECRET_PURPOSE};
use hakobu_fleet::relationship::CredentialReference;
use hakobu_fleet::secret_bytes::SecretBytes;
use hakobu_fleet::secrets::SecretPlaces;
use hakobu_testkit::http::{ReceivedRequest, ScriptedAnswer, ScriptedServer};
use hakobu_testkit::smtp::{SmtpEncryption, SmtpServer};

fn limits(attempts: usize, attempt: Duration) -> DeliveryLimits {
    DeliveryLimits { pauses: vec![Duration::from_millis(1); attempts - 1], attempt }
}

fn patient(attempts: usize) -> DeliveryLimits {
    limits(attempts, Duration::from_secs(60))
}

fn notification() -> Notification {
    Notification {
        relationship: Some("home \u{e9}".to_owned()),
        ..Notification::new("run-7", NotificationKind::RunFailed, Moment::new(1_800_000_000_000).unwrap())
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn webhook(
    limits: DeliveryLimits,
    secret: Option<&[u8]>,
    answer: impl Fn(&ReceivedRequest) -> ScriptedAnswer + Send + 'static,
) -> (hakobu_core::Result<()>, Vec<ReceivedRequest>) {
    let server = ScriptedServer::start(None, answer).unwrap();
    let url = format!("{}/hook?key=sesame", server.endpoint);
    let secret = secret.map(|secret| SecretBytes::new(secret.to_vec()));
    let clock = AtomicUsize::new(1000);
    let sent = run(async {
        let sender = WebhookSender::new(limits).unwrap();
        let now = || clock.fetch_add(1, Ordering::Relaxed) as u64;
        sender.send(&url, secret.as_ref(), &notification(), now).await
    });
    if let Err(error) = &sent {
        assert!(!error.to_string().contains("sesame"), "{error}");
    }
    (sent, server.requests())
}

fn status(code: u16) -> ScriptedAnswer {
    ScriptedAnswer::with(code, &[], "")
}

#[test]
fn a_webhook_gets_signed_json() {
    let (sent, requests) = webhook(patient(1), Some(b"open sesame"), |_| status(204));
    sent.unwrap();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/hook?key=sesame"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!((&body["version"], &body["kind"]), (&1.into(), &"run_failed".into()));
    let (id, time) = (request.header("webhook-id").unwrap(), request.header("webhook-timestamp").unwrap());
    assert_eq!((id, time), ("run-7", "1000"));
    let signature = request.header("webhook-signature").unwrap().strip_prefix("v1,").unwrap();
    let signed = [format!("{id}.{time}.").as_bytes(), &request.body].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"open sesame");
    hmac::verify(&key, &signed, &BASE64_STANDARD.decode(signature).unwrap()).unwrap();
}

#[test]
fn a_webhook_without_a_secret_has_no_signature() {
    let (sent, requests) = webhook(patient(1), None, |_| status(200));
    sent.unwrap();
    assert_eq!(requests[0].header("webhook-signature"), None);
}

#[test]
fn a_webhook_is_tried_again_with_a_signature_of_its_time() {
    let (sent, requests) = webhook(patient(4), Some(b"s"), |request| match request.number {
        0 => status(503),
        1 => status(429),
        2 => ScriptedAnswer::Cut(Vec::new()),
        _ => status(200),
    });
    sent.unwrap();
    let times: Vec<_> = requests.iter().map(|request| request.header("webhook-timestamp").unwrap()).collect();
    assert_eq!(times, ["1000", "1001", "1002", "1003"]);
    assert!(requests.iter().all(|request| request.header("webhook-id") == Some("run-7")));
    let mut signatures: Vec<_> =
        requests.iter().map(|request| request.header("webhook-signature").unwrap()).collect();
    signatures.dedup();
    assert_eq!(signatures.len(), 4);
}

#[test]
fn attempts_are_used_up_or_end_with_a_no() {
    let (sent, requests) = webhook(patient(3), None, |_| status(500));
    let error = sent.unwrap_err();
    assert_eq!((error.kind, requests.len()), (ErrorKind::TimedOut, 3));
    assert!(error.detail.contains("status 500 (tried several times)"), "{error}");
    for code in [400, 401, 404, 410] {
        let (sent, requests) = webhook(patient(3), None, move |_| status(code));
        assert_eq!((sent.unwrap_err().kind, requests.len()), (ErrorKind::Refused, 1), "{code}");
    }
}

#[test]
fn no_redirection_is_followed() {
    let (sent, requests) =
        webhook(patient(3), None, |_| ScriptedAnswer::with(307, &["Location: /elsewhere"], ""));
    assert!(sent.unwrap_err().detail.contains("not followed"));
    assert_eq!(requests.len(), 1);
}

#[test]
fn silence_and_endless_answers_hold_nobody() {
    let brief = || limits(2, Duration::from_millis(200));
    let (sent, requests) = webhook(brief(), None, |_| ScriptedAnswer::Silence(Vec::new()));
    assert_eq!((sent.unwrap_err().kind, requests.len()), (ErrorKind::TimedOut, 2));
    let (sent, _) = webhook(patient(1), None, |_| {
        ScriptedAnswer::Endless(b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; 1 << 16])
    });
    sent.unwrap();
}

#[test]
fn nobody_listens() {
    let port = hakobu_testkit::free_port::free_port().unwrap();
    let error = run(async {
        let sender = WebhookSender::new(patient(2)).unwrap();
        sender.send(&format!("http://127.0.0.1:{port}/"), None, &notification(), || 0).await.unwrap_err()
    });
    assert_eq!(error.kind, ErrorKind::TimedOut);
    assert!(error.detail.contains("refused"), "{error}");
}

fn pem_of(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", BASE64_STANDARD.encode(der))
}

/// The files of a certificate for 127.0.0.1, and its text.
struct TestCertificate {
    folder: tempfile::TempDir,
    pem: String,
}

impl TestCertificate {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let (folder, pem) = (tempfile::tempdir().unwrap(), pem_of("CERTIFICATE", made.cert.der()));
        std::fs::write(folder.path().join("certificate"), &pem).unwrap();
        std::fs::write(folder.path().join("key"), pem_of("PRIVATE KEY", &made.signing_key.serialize_der()))
            .unwrap();
        Self { folder, pem }
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

fn mail_setting(server: &SmtpServer, encryption: MailEncryption, user: Option<&str>) -> MailServerSetting {
    MailServerSetting {
        host: "127.0.0.1".to_owned(),
        port: Some(server.port),
        encryption,
        from: "hakobu <hakobu@example.org>".to_owned(),
        user: user.map(str::to_owned),
        password: user.map(|_| CredentialReference::Environment("UNUSED".to_owned())),
    }
}

fn mail(
    setting: &MailServerSetting,
    password: &str,
    authority: Option<&str>,
    to: &str,
) -> hakobu_core::Result<()> {
    let password = SecretBytes::new(password.as_bytes().to_vec());
    run(async {
        let authority = authority.map(str::as_bytes);
        let sender = MailSender::new(setting, Some(&password), authority, patient(2))?;
        sender.send(to, &notification()).await
    })
}

#[test]
fn mail_goes_over_tls_with_user_and_password() {
    let certificate = TestCertificate::new();
    let files = (certificate.file("certificate"), certificate.file("key"));
    for encryption in [MailEncryption::Tls, MailEncryption::Starttls] {
        let server = SmtpServer::start(match encryption {
            MailEncryption::Tls => SmtpEncryption::Tls(&files.0, &files.1),
            _ => SmtpEncryption::StartTls(&files.0, &files.1),
        })
        .unwrap();
        let setting = mail_setting(&server, encryption, Some("hakobu"));
        let trusted = Some(certificate.pem.as_str());
        mail(&setting, "open sesame", trusted, "admin@example.org").unwrap();
        let mails = server.mails().unwrap();
        let [mail_text] = &mails[..] else { panic!("{encryption:?}: {mails:?}") };
        for line in [
            "Envelope-From: hakobu@example.org",
            "Envelope-To: admin@example.org",
            "Envelope-Tls: True",
            "Envelope-User: hakobu",
            "Auto-Submitted: auto-generated",
        ] {
            assert!(mail_text.contains(line), "{encryption:?} {line}: {mail_text}");
        }
        let error = mail(&setting, "open sesame", None, "admin@example.org").unwrap_err();
        assert!(error.detail.contains("certificate"), "{encryption:?}: {error}");
        let error = mail(&setting, "wrong", trusted, "admin@example.org").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{encryption:?}: {error}");
        assert!(error.detail.contains("535") && !error.to_string().contains("wrong"), "{error}");
        assert_eq!(server.mails().unwrap().len(), 1);
    }
}

#[test]
fn a_server_without_starttls_gets_nothing() {
    let server = SmtpServer::start(SmtpEncryption::Plain).unwrap();
    let setting = mail_setting(&server, MailEncryption::Starttls, Some("hakobu"));
    let error = mail(&setting, "open sesame", None, "admin@example.org").unwrap_err();
    assert!(error.detail.contains("STARTTLS"), "{error}");
    assert!(server.mails().unwrap().is_empty());
}

#[test]
fn mail_is_refused_or_tried_again() {
    let server = SmtpServer::start(SmtpEncryption::Plain).unwrap();
    let setting = mail_setting(&server, MailEncryption::None, None);
    let error = mail(&setting, "", None, "nobody@example.org").unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.detail.contains("no such user"), "{error}");
    mail(&setting, "", None, "busy@example.org").unwrap();
    let mails = server.mails().unwrap();
    assert!(mails.len() == 1 && mails[0].contains("Envelope-To: busy@example.org"), "{mails:?}");
    assert_eq!(mail(&setting, "", None, "no address").unwrap_err().kind, ErrorKind::Usage);
}

#[test]
fn a_subject_cannot_add_headers() {
    let server = SmtpServer::start(SmtpEncryption::Plain).unwrap();
    let setting = mail_setting(&server, MailEncryption::None, None);
    let hostile = Notification {
        relationship: Some("home\r\nBcc: other@example.org\r\n\r\nbody".to_owned()),
        ..notification()
    };
    run(async {
        let sender = MailSender::new(&setting, None, None, patient(1)).unwrap();
        sender.send("admin@example.org", &hostile).await.unwrap();
    });
    let mails = server.mails().unwrap();
    let head = mails[0].split("\n\n").next().unwrap().split("\r\n\r\n").next().unwrap();
    assert!(!head.lines().any(|line| line.starts_with("Bcc")), "{head}");
    assert!(head.contains("Envelope-To: admin@example.org\n"), "{head}");
}

/// Waits until something is there.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(there) = look() {
            return there;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what}");
}

#[test]
fn what_the_queue_has_reaches_the_receivers_or_the_audit_log() {
    let server = ScriptedServer::start(None, |_| status(204)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let keys = Arc::new(SealingKeys::create(&folder.path().join("key")).unwrap());
    let secret = SecretBytes::new(b"open sesame".to_vec());
    std::fs::create_dir(folder.path().join("secrets")).unwrap();
    let sealed = keys.seal(WEBHOOK_SECRET_PURPOSE, &secret).unwrap();
    let settings = NotifierSettings {
        places: SecretPlaces { folder: Some(folder.path().join("secrets")), variables: Vec::new() },
        keys,
        mail: None,
        limits: patient(1),
    };
    let clock: Arc<dyn FleetClock> = Arc::new(MachineClock);
    let page = "http://127.0.0.1:8420".to_owned();
    let notifier = Arc::new(Notifier::new(settings, page, clock.clone(), Arc::new(Silent)).unwrap());
    let leader = LeaderSettings {
        lease: Duration::from_secs(30),
        split_after: Duration::from_secs(20),
        key: LeaseKey::new(&[7; 32]),
    };
    let ledger = Box::new(MemoryLedger::default());
    let plane = ControlPlane::start(ledger, clock, leader, |_| Ok(Vec::new())).unwrap();
    let (put, queued) = notification_queue();
    let control = plane.handle().clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, notifier.run(queued, control));
    });
    let setting = |webhook: String| {
        let json = format!(r#"{{"version":1,"webhooks":[{webhook}],"mail_to":["a@example.org"]}}"#);
        NotificationSetting::parse(&json).unwrap()
    };
    let url = format!("{}/hook", server.endpoint);
    let good = setting(format!(r#"{{"url":"{url}","secret":{{"sealed":"{sealed}"}}}}"#));
    let bad = setting(format!(r#"{{"url":"{url}","secret":{{"file":"/etc/passwd"}}}}"#));
    for recipients in [good, bad] {
        put.put(QueuedNotification { recipients, notification: notification() });
    }
    // The secret of the second webhook may not be read, and there is no mail server for either address.
    let records = until("three failures are in the audit log", || {
        let records = plane.handle().ask(|leader| leader.ledger().audit(None, 10)).unwrap().unwrap();
        (records.len() == 3).then_some(records)
    });
    for record in &records {
        let told = &record.entry;
        assert_eq!(
            (told.action.as_str(), &told.object[..]),
            ("notification.failed", "home \u{e9}".as_bytes())
        );
        assert!(told.detail.contains("--mail-settings") || told.detail.contains("one folder"), "{told:?}");
    }
    let requests = until("the webhook is called", || Some(server.requests()).filter(|all| !all.is_empty()));
    assert_eq!(requests.len(), 1);
    assert!(requests[0].header("webhook-signature").is_some());
    drop(put);
    thread.join().unwrap();
}

/// Leaves notices out.
struct Silent;

impl Observer for Silent {
    fn event(&self, _: Event) {}
}
