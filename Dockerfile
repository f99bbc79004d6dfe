# `elgo serve` as a small image: no compiler, no root; the kernels are compiled when it is built.
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY elgo elgo
RUN python -m venv /opt/elgo \
    && /opt/elgo/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt '.[serve]'

FROM python:3.11-slim
COPY --from=build /opt/elgo /opt/elgo
ENV PATH=/opt/elgo/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/var/cache
RUN useradd --system --uid 10001 --home-dir /data elgo \
    && install -d -o elgo -g elgo /data /var/cache/elgo
USER 10001
RUN elgo warm-up
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
CMD ["elgo", "serve", "--host", "0.0.0.0", "--store", "/data/jobs.sqlite"]
