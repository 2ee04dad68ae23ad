//! A certificate request and a certificate for tests.
// upstream: pkg/apis/certificates/helpers.go ParseCSR; the form that tests parse

use k3_pki::pem_blocks;

/// A PKCS#10 request with an RSA key of 2048 bits.
pub(super) const CERTIFICATE_REQUEST: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIICYzCCAUsCAQAwHjEPMA0GA1UEAwwGZ29sZGVuMQswCQYDVQQKDAJnMTCCASIw
DQYJKoZIhvcNAQEBBQADggEPADCCAQoCggEBAI8nuisZ/h5oPqTQZO1FSMtMjCYU
aDFM7fW1R36DiRj5QJaaNqkJGp/xUOYpt6cvg/0M/SRYovZzGlfSZ7gpluJ9RgYz
48EY4//kiro138AhIUAtLIkwpbdHJbiskhrKUaDHTNTIeuh8r1PMspQXOP1aX0Eg
MOgCThbRzHJo5UFjd4JzuFK0VlkbqCgSLoSqHE0Qf1BJtt9Ebu9aqwNg+O0p+yp4
kOadZfen/8wvtqmmxTULl3BCwFuiMP551EG6M+G0R+eKptHliAzL/NIooweGvpxe
5zKp43nrJiDAF5dL4uvHka9TEUeBgulDfYppSSkMqgBwYZDiQy8qqwTsissCAwEA
AaAAMA0GCSqGSIb3DQEBCwUAA4IBAQACCXP7jxEdfgCXYGJYTTtk43aRNQ5nVpoM
rgv4Xa0p0I8ur3eSviuRaFYN0KuY+i/+AZp5V4cTjAFAdiPY/+nd0tnqFJOwdJ/5
cdd5QV2xthmzTCAug3JTeAZgcOMczn4Xk3mvSCh4cYYQETES2naGiMTeshlBoWWZ
nXAkE54AglWy2sI14orpOKjbmsT8Kazli+feZo+U+f3omsbIMV3iMDgHpbYmC7M1
hlN5BP0D8tNrJ6pjt6T9CgoMReAkXRaXF0NMh6kIZA+GgqJYcamirVeMC2snKkBv
XU2RNT6PwYO6wfm0S4S9BF1ND7kZkrbqdW/sPYdu+9aQ6BFmmYWn
-----END CERTIFICATE REQUEST-----
";

/// A CA certificate with an RSA key of 2048 bits.
pub(super) const CA_CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIDCzCCAfOgAwIBAgIUemHX+HsIT7YFTQC4zbujekzeNaQwDQYJKoZIhvcNAQEL
BQAwFDESMBAGA1UEAwwJZ29sZGVuLWNhMCAXDTI2MTExNTIxMDI1MVoYDzIxMjYx
MDIyMjEwMjUxWjAUMRIwEAYDVQQDDAlnb2xkZW4tY2EwggEiMA0GCSqGSIb3DQEB
AQUAA4IBDwAwggEKAoIBAQCHr+2hSIZ12nlNbsbq/Zs71TTNVKsrSKsdNfEQpjAS
Skn/4Z1YbGjGec48aN4eI/SccHakvykMHBtVa4/TKqyH4Kse6sJPR7T7D/NZVPHD
6EMfWj69bY7cox6oZRGWqYIoi1WuMFiuf2XD7RW6sBfJ4GBVhkK56BVeqHVRfhun
bd2GMNdmIXc+fbnQNT5bba8iylcxCPmDdqxYeVk+I7msyKeMtJruALJaOGTlbrvx
MX+MXr6y08lYWw3EIyMbzmxutu2lNRUPG2T8fgMnamjjIXUOsTMvV11349KbaBr3
YJyAbHtkPXKMeVjY1LL2bFRew6zP6gHGk3yeK2jkcrChAgMBAAGjUzBRMB0GA1Ud
DgQWBBSY7v8KDE95wzNRmic4Qex6GNfY4DAfBgNVHSMEGDAWgBSY7v8KDE95wzNR
mic4Qex6GNfY4DAPBgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3DQEBCwUAA4IBAQAj
k9ZFHL0h83aI1Ajgaas+jliS0BvmCHpgpegwz2XtZbchJnAHkvLBpeNLd5Yr454j
W3rrjOgsUhw7VQFp81Rt3bQMf/C5RM4ysvbpT9rb5FKc4tyTkScJnal9FAlmISeY
MXh5OxLlxHjO4NJ/gjkfcmdLvXlsA6Rv71/eag+A3+funhwA7ZSPuc34xNjWvpHK
zJ9ZCb6+q+RgZazuGt2QZRFlznp15CSKWSnHvzeYPzY3QAwuMFbMx0fH0h3de5Ab
kHpPf4MaLia879vqb6tIlkew/CL7UGkvY860IxOlSU/yLOcjnIzQLlQY/IBdj4/K
JGPcyOgsJ4z4J8LvCQ6k
-----END CERTIFICATE-----
";

pub(super) fn certificate_request() -> Vec<u8> {
    bytes(CERTIFICATE_REQUEST)
}

pub(super) fn ca_certificate() -> Vec<u8> {
    bytes(CA_CERTIFICATE)
}

fn bytes(text: &str) -> Vec<u8> {
    pem_blocks(text.as_bytes()).remove(0).bytes
}
