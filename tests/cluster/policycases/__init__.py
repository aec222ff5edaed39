"""The cases of the differential test: policies, requests, and the answers of both sides."""
