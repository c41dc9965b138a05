use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use axum::Router;
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

struct CertificateFiles {
    folder: tempfile::TempDir,
}

impl CertificateFiles {
    fn new() -> (Self, CertificateDer<'static>) {
        let files = Self { folder: tempfile::tempdir().unwrap() };
        let made = files.replace();
        (files, made)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn replace(&self) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let write = |name: &str, kind: &str, der: &[u8]| {
            let text = BASE64_STANDARD.encode(der);
            let pem = format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n");
            std::fs::write(self.path(name), pem).unwrap();
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(self.path(name), mode).unwrap();
        };
        write("certificate", "CERTIFICATE", made.cert.der());
        write("key", "PRIVATE KEY", &made.signing_key.serialize_der());
        made.cert.der().clone()
    }

    fn load(&self) -> Result<TlsCertificate> {
        TlsCertificate::load(&self.path("certificate"), &self.path("key"))
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn start(certificate: &Arc<TlsCertificate>, limits: TlsListenerLimits) -> SocketAddr {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let listener = TlsListener::new(tcp, Arc::clone(certificate), limits, drop).unwrap();
    let router = Router::new().route("/", get(|| async { "hello" }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn request(address: SocketAddr, trusted: &CertificateDer<'static>) -> io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let tcp = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[test]
fn requests_are_answered_over_tls_while_others_say_nothing() {
    let (files, trusted) = CertificateFiles::new();
    let certificate = Arc::new(files.load().unwrap());
    run(async {
        let address = start(&certificate, TlsListenerLimits::default()).await;
        let mut silent = Vec::new();
        for _ in 0..20 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut plain = TcpStream::connect(address).await.unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let answer = request(address, &trusted).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
        let mut refused = Vec::new();
        let _ = plain.read_to_end(&mut refused).await;
        assert!(!refused.starts_with(b"HTTP"), "{refused:?}");
    });
}

#[test]
fn a_handshake_has_a_longest_time_and_an_address_a_share() {
    let (files, trusted) = CertificateFiles::new();
    let certificate = Arc::new(files.load().unwrap());
    let limits =
        TlsListenerLimits { handshake: Duration::from_millis(100), connections: 2, handshakes_of_address: 1 };
    run(async {
        let address = start(&certificate, limits).await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        // The second of this address is closed at once, the first after its time.
        let mut second = TcpStream::connect(address).await.unwrap();
        assert_eq!(second.read(&mut [0]).await.unwrap_or(0), 0);
        assert_eq!(silent.read(&mut [0]).await.unwrap_or(0), 0);
        // All permits have come back.
        for _ in 0..5 {
            assert!(request(address, &trusted).await.unwrap().ends_with("hello"));
        }
    });
}

#[test]
fn a_new_certificate_is_used_and_a_wrong_one_is_not() {
    let (files, first) = CertificateFiles::new();
    let certificate = Arc::new(files.load().unwrap());
    run(async {
        let address = start(&certificate, TlsListenerLimits::default()).await;
        assert!(!certificate.reload_if_changed().unwrap());
        let first_key = std::fs::read(files.path("key")).unwrap();
        let second = files.replace();
        // Only one of the files is new.
        let second_key = std::fs::read(files.path("key")).unwrap();
        std::fs::write(files.path("key"), first_key).unwrap();
        let error = certificate.reload_if_changed().unwrap_err();
        assert!(error.detail.contains("cannot be used together"), "{error}");
        assert!(request(address, &first).await.is_ok());
        std::fs::write(files.path("key"), second_key).unwrap();
        assert!(certificate.reload_if_changed().unwrap());
        assert!(request(address, &second).await.is_ok());
        assert!(request(address, &first).await.is_err());
        std::fs::remove_file(files.path("key")).unwrap();
        assert_eq!(certificate.reload().unwrap_err().kind, ErrorKind::NotFound);
        assert!(request(address, &second).await.is_ok());
    });
}

#[test]
fn files_that_are_wrong_are_named() {
    let (files, _) = CertificateFiles::new();
    std::fs::set_permissions(files.path("key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = files.load().unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.reason().contains("chmod o="), "{error}");
    files.replace();
    let mut key = String::new();
    std::fs::File::open(files.path("key")).unwrap().read_to_string(&mut key).unwrap();
    std::fs::write(files.path("certificate"), key).unwrap();
    assert!(files.load().unwrap_err().detail.contains("no certificate in PEM"));
    files.replace();
    std::fs::write(files.path("key"), "x").unwrap();
    assert!(files.load().unwrap_err().detail.contains("no private key in PEM"));
}

#[test]
fn only_this_machine_is_served_without_tls() {
    for (address, may) in [
        ("127.0.0.1:80", true),
        ("127.9.9.9:80", true),
        ("[::1]:80", true),
        ("[::ffff:127.0.0.1]:80", true),
        ("0.0.0.0:80", false),
        ("[::]:80", false),
        ("192.0.2.1:80", false),
        ("[::ffff:192.0.2.1]:80", false),
    ] {
        assert_eq!(may_do_without_tls(&address.parse().unwrap()), may, "{address}");
    }
}
