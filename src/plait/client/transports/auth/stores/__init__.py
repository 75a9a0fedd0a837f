"""Where logins are kept between runs."""
