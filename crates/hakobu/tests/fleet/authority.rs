//! An authority that signs certificates, for servers of tests.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;

/// A folder with the certificate of an authority, `ca.pem`, and one that it has signed for this machine, `server.pem` and
/// `server.key`.
pub struct TestAuthority {
    folder: TempDir,
}

impl TestAuthority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "an authority of tests");
        let certificate = params.self_signed(&key).unwrap();
        let own_key = KeyPair::generate().unwrap();
        let mut own = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        own.distinguished_name.push(DnType::CommonName, "this machine");
        own.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let own_certificate = own.signed_by(&own_key, &Issuer::from_params(&params, &key)).unwrap();
        let authority = Self { folder: tempfile::tempdir().unwrap() };
        authority.write("ca.pem", "CERTIFICATE", certificate.der());
        authority.write("server.pem", "CERTIFICATE", own_certificate.der());
        authority.write("server.key", "PRIVATE KEY", &own_key.serialize_der());
        authority
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a path as an argument.
    pub fn file(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, label: &str, der: &[u8]) {
        fs::write(self.path(name), pem_of(label, der)).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(0o600)).unwrap();
    }
}

/// Returns bytes as PEM.
pub fn pem_of(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64_STANDARD.encode(der))
}
